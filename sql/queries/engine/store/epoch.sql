-- Reads the epoch of the database; see belfry.epoch.
SELECT belfry.epoch() AS epoch

-- Moves the id sequences past the ids in use, and returns the tables whose sequence moved; see
-- belfry.advance_ids.
SELECT belfry.advance_ids()

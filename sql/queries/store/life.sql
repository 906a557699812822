-- Which life the database is in: see belfry.life.
SELECT belfry.epoch() AS life

-- Reads the clock of the database. It decides when a delay ends.
SELECT clock_timestamp() AS now

-- The database's clock, which decides when a delay ends.
SELECT clock_timestamp() AS now

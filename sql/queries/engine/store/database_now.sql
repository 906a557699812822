-- Reads the clock of the database. Delays end by this clock.
SELECT clock_timestamp() AS now

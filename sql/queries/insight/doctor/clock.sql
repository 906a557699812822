-- Returns the clock of the database.
SELECT clock_timestamp()

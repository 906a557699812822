-- Asks the sequencer for rows that nobody announced.
SELECT belfry.wake()

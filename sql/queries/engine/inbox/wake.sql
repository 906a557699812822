-- Asks the sequencer to read rows that were inserted without a notification.
SELECT belfry.wake()

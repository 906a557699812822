-- Notifies the sequencer, which then reads rows that were inserted without a notification.
SELECT belfry.wake()

-- Stops being the sequencer and tells the other instances, one of which becomes it.
SELECT pg_advisory_unlock_all(), belfry.wake()

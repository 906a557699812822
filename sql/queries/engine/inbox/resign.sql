-- Stops being the sequencer, and notifies the other instances. One of them takes over.
SELECT pg_advisory_unlock_all(), belfry.wake()

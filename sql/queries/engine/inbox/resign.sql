-- Releases the locks of the sequencer, and notifies the other instances, so that another instance takes over.
SELECT pg_advisory_unlock_all(), belfry.wake()

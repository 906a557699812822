-- Writes a record to the WAL of Postgres and commits it. The commit waits for the disk and for the
-- synchronous standbys. So after the commit, disk and standbys have every change that the session could
-- see before. The record has no other purpose; logical decoding may pass it on.
SELECT pg_logical_emit_message(true, 'belfry', '') IS NOT NULL

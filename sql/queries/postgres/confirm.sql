-- Writes a record to the log of Postgres and commits it. The commit waits for the disk and for the synchronous
-- standbys, so afterwards they have everything that the session could see before. Logical decoding passes the record
-- on; nobody reads it.
SELECT pg_logical_emit_message(true, 'belfry', '') IS NOT NULL

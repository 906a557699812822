-- Messages of producers that use only SQL. A committed row is a pushed message. The sequencer
-- (pkg/engine/inbox) moves the row into its partition in another transaction. So a producer's
-- transaction may stay open for long, and locks nothing that other sessions need.
CREATE TABLE belfry.inbox (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- Ascends in the order of the inserts.
    queue          text NOT NULL,
    partition      text DEFAULT 'Default', -- NULL means 'Default'.
    payload        json NOT NULL,
    transaction_id text,
    trace_id       uuid,
    visible_at     timestamptz,
    headers        json, -- An object of texts.
    tenant         text, -- The tenant of the partition, if this message creates it. NULL: none.
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(), -- The producer's top-level transaction.
    inserted_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_threshold = -1,
        vacuum_truncate = false, toast.vacuum_truncate = false); -- Truncation takes a lock that producers would wait for.
-- Finds the rows that were committed after a snapshot, without reading older, deleted rows.
CREATE INDEX inbox_xid ON belfry.inbox (xid);
CREATE TRIGGER inbox_notify AFTER INSERT ON belfry.inbox
    FOR EACH STATEMENT EXECUTE FUNCTION belfry.inbox_notify();

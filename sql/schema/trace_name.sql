-- One row for each name of a trace. The list of traces by name reads this table.
CREATE TABLE belfry.trace_name (
    name       text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    trace_id   uuid NOT NULL REFERENCES belfry.trace (id) ON DELETE CASCADE,
    PRIMARY KEY (name, created_at, trace_id)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX trace_name_trace ON belfry.trace_name (trace_id);

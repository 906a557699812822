-- A note of a consumer about a message.
CREATE TABLE belfry.trace (
    id           uuid PRIMARY KEY,
    partition_id bigint NOT NULL,
    seq          bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    group_name   text NOT NULL,
    event_type   text NOT NULL,
    worker       text NOT NULL,
    names        text[] NOT NULL,
    data         json NOT NULL
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX trace_message ON belfry.trace (partition_id, seq, created_at, id);

-- A query of a stream client: it reads the queue source, and keeps state for each partition of source.
-- The name is unique for the source. The queues need not exist, and their deletion keeps the query.
CREATE TABLE belfry.stream (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid         uuid NOT NULL UNIQUE,
    source      text NOT NULL,
    name        text NOT NULL,
    sink        text,
    config_hash text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (source, name)
);

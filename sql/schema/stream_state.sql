-- The state of a stream in a partition of its source.
CREATE TABLE belfry.stream_state (
    stream_id    bigint NOT NULL REFERENCES belfry.stream ON DELETE CASCADE,
    partition_id bigint NOT NULL,
    key          text COLLATE "C" NOT NULL,
    value        json NOT NULL,
    window_end   double precision, -- The member windowEnd of value, if windowEnd is a number.
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (stream_id, partition_id, key)
);
CREATE INDEX stream_state_ripe ON belfry.stream_state (stream_id, partition_id, window_end) WHERE window_end IS NOT NULL;
CREATE INDEX stream_state_partition ON belfry.stream_state (partition_id);

-- The counts of one instance for a queue and a group. A row covers one minute, or after the roll-up 15,
-- 60 or 360. A minute without events has no row. The rows of a deleted queue stay. '(other)' is the sum
-- of the queues above the limit of pkg/insight/history. Rows with consumer_group '' count pushes.
CREATE TABLE belfry.history (
    at                 timestamptz NOT NULL,
    minutes            smallint NOT NULL CHECK (minutes IN (1, 15, 60, 360)),
    instance           uuid NOT NULL,
    queue              text NOT NULL,
    consumer_group     text NOT NULL,
    push_requests      bigint NOT NULL,
    push_messages      bigint NOT NULL,
    pop_requests       bigint NOT NULL,
    pop_messages       bigint NOT NULL,
    pop_empty          bigint NOT NULL,
    ack_requests       bigint NOT NULL,
    ack_success        bigint NOT NULL,
    ack_failed         bigint NOT NULL,
    ack_retried        bigint NOT NULL,
    ack_refused        bigint NOT NULL,
    dead_letters       bigint NOT NULL,
    transactions       bigint NOT NULL,
    partitions_created bigint NOT NULL,
    partitions_deleted bigint NOT NULL,
    removed_retention  bigint NOT NULL,
    removed_completed  bigint NOT NULL,
    removed_evicted    bigint NOT NULL,
    -- Microseconds from commit to first delivery: the sum, the greatest value and the number of values.
    lag_sum            bigint NOT NULL,
    lag_max            bigint NOT NULL,
    lag_count          bigint NOT NULL,
    -- The same values as a histogram. Each element is a bucket of pkg/insight/history and its count: bucket * 2^40 + count.
    latency            bigint[] NOT NULL,
    -- Requests that waited at the end of the minute. NULL: the newest earlier value applies.
    parked             bigint,
    -- The backlog at counted_at: its unfinished messages, and when the oldest of them was stored. The row of consumer_group '' has
    -- the backlog of the queue. NULL: the newest earlier value applies. These values are the same at every instance.
    depth              bigint,
    oldest_at          timestamptz,
    counted_at         timestamptz,
    PRIMARY KEY (at, minutes, instance, queue, consumer_group)
);
CREATE INDEX history_minutes ON belfry.history (minutes, at) WHERE minutes < 360;
CREATE INDEX history_depth ON belfry.history (queue, consumer_group, counted_at DESC) WHERE depth IS NOT NULL;

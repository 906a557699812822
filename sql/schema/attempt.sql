-- A delivery of a message that failed: a failed ack, a retry, a dead letter, or a lease that ended
-- without an ack. A delivery that succeeds writes no row. The rows stay after a redrive. They are
-- deleted with the message. record_attempts keeps the newest 20 rows of a message and a group, and a
-- sweep keeps the newest 100,000 rows of all messages.
CREATE TABLE belfry.attempt (
    partition_id bigint NOT NULL,
    seq          bigint NOT NULL,
    group_id     bigint NOT NULL,
    nth          integer NOT NULL, -- Counts the failed deliveries of the message for the group, from 1.
    -- The begin of the lease, by the clock of the instance that created the lease. NULL: unknown.
    delivered_at timestamptz,
    failed_at    timestamptz NOT NULL,
    result       smallint NOT NULL, -- 2 failed, 3 dlq, 4 retry (see apply_acks), 5 the lease ended
    lease_id     uuid,
    error        text,
    consumer     text, -- Who sent the ack. NULL: unknown.
    instance     text, -- The instance that applied the ack. NULL: a SQL consumer, or the lease ended.
    PRIMARY KEY (partition_id, seq, group_id, nth)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX attempt_failed ON belfry.attempt (failed_at);

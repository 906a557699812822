-- A dead letter that was put back for its group, and is not settled yet. The cursor is past its
-- position in the log or skips it, so claim delivers the message from this table. Only the holder of
-- the cursor's row lock writes a row.
CREATE TABLE belfry.redrive (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    seq          bigint NOT NULL,
    -- Failed acks and deliveries. The counts of the dead letter continue.
    failures     integer NOT NULL,
    attempts     integer NOT NULL,
    lease_id     uuid, -- The lease of the newest delivery, live or expired.
    redriven_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    deliveries   integer NOT NULL DEFAULT 0, -- Deliveries since the message was put back.
    -- No delivery before this instant; a failed ack sets it. Redriven messages keep their
    -- order, so later redriven messages wait as well. Messages of the log do not wait.
    retry_at     timestamptz,
    PRIMARY KEY (partition_id, group_id, seq)
) WITH (vacuum_truncate = false);

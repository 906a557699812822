-- A dead letter that was put back for its group, and is not settled yet. In the log the cursor has
-- passed or skips the message, so belfry.claim delivers the message from this table. Only the holder of
-- the row lock on the cursor writes a row.
CREATE TABLE belfry.redrive (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    seq          bigint NOT NULL,
    -- The numbers of failed acks and of deliveries, continued from the dead letter.
    failures     integer NOT NULL,
    attempts     integer NOT NULL,
    lease_id     uuid, -- The lease of the newest delivery; it may have expired.
    redriven_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    deliveries   integer NOT NULL DEFAULT 0, -- Deliveries since the message was put back.
    -- Set by a failed ack: no pop returns the message before this instant. Redriven messages keep their
    -- order, so later redriven messages wait as well. Messages of the log do not wait.
    retry_at     timestamptz,
    PRIMARY KEY (partition_id, group_id, seq)
) WITH (vacuum_truncate = false);

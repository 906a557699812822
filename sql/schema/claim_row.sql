-- One row of the result of belfry.claim. item says what the row describes, and only the columns of
-- that item are set. The rows come in this order: each partition, followed by its messages, and the
-- summary last. pkg/store/internal/claim/result.go names the values of item and outcome.
CREATE TYPE belfry.claim_row AS (
    -- 1: a partition that was due.  2: a message of the partition before it.  3: the summary.
    item           smallint,
    -- Of a partition and a message.
    partition_id   bigint,

    -- Of a partition: what the claim did.
    -- 1: It delivered messages of the log.
    -- 2: It delivered redriven messages.
    -- 3: It delivered nothing, because nothing is due. It corrected ready_at.
    -- 4: It delivered nothing, because no message is visible. The cursor is still due, and the
    --    caller settles it (store/settle).
    outcome        smallint,
    -- Of a partition: ready_at of the cursor after the claim. With a lease, the end of the lease.
    ready_at       timestamptz,
    -- Of a partition: a wake must follow the commit. The cursor has no ready_at, or it waits for the
    -- retry delay of redriven messages alone.
    needs_wake     boolean,
    -- Of a partition: how many messages the claim moved past because they expired, and how many
    -- because they reached maxDeliveries. NULL: it did not move the cursor for this reason.
    expired        bigint,
    given_up       bigint,
    -- Of a partition, after autoAck: what an undo of the delivery needs. outcome 1: failures and
    -- attempts of the first message, if there were any (store/unconsume). outcome 2: the redrives
    -- (store/redrive_restore).
    undo           json,

    -- Of a message.
    seq            bigint,
    id             uuid,
    transaction_id text,
    trace_id       uuid,
    payload        json,
    created_at     timestamptz,
    producer_sub   text,
    encrypted      boolean,
    -- The number of its deliveries under a lease, including this one. 0 with autoAck.
    attempt        integer,

    -- Of the summary: the group, its queue and its cursor in the requested partition exist.
    group_exists   boolean,
    -- A cursor was due, perhaps one that another session holds.
    was_due        boolean,
    -- When the next cursor is due, if none was due.
    next_ready_at  timestamptz,
    -- The clock of the database, by which the claim judged.
    database_now   timestamptz,
    -- The result of a scan: no cursor is due before due_floor, and none becomes ready between
    -- database_now and next_floor. NULL: unknown.
    due_floor      timestamptz,
    next_floor     timestamptz
);

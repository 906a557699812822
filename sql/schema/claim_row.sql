-- One row of the result of belfry.claim. item says what the row describes, and only the columns of
-- that item are set. The messages follow their partition, and the summary is the last row.
-- pkg/engine/store/internal/claim/result.go names the values of item and outcome.
CREATE TYPE belfry.claim_row AS (
    item           smallint, -- 1: a partition that was due.  2: a message.  3: the summary.
    partition_id   bigint,   -- of a partition and a message
    -- Of a partition: what the claim did.
    -- 1: It delivered messages of the log.
    -- 2: It delivered redriven messages.
    -- 3: It delivered nothing, because nothing is due. It corrected ready_at.
    -- 4: It delivered nothing, because no message is visible. The cursor is still due, and the
    --    caller settles it (store/settle).
    -- 5: It delivered nothing, because the queue or the group is paused.
    outcome        smallint,
    ready_at       timestamptz, -- of the cursor, after the claim; with a lease, the end of the lease
    -- A wake must follow the commit. The cursor has no ready_at, or it waits for the retry delay of
    -- redriven messages alone.
    needs_wake     boolean,
    -- Messages that the claim moved past because they expired, or because they reached
    -- maxDeliveries. NULL: it did not move the cursor for this reason.
    expired        bigint,
    given_up       bigint,
    -- After autoAck: what an undo of the delivery needs. outcome 1: failures and attempts of the
    -- first message (store/unconsume). outcome 2: the redrives (store/redrive_restore).
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
    attempt        integer, -- deliveries under a lease, including this one; 0 with autoAck

    -- Of the summary.
    group_exists   boolean,     -- with its queue, and its cursor in the requested partition
    was_due        boolean,     -- a cursor was due, perhaps one that another session holds
    next_ready_at  timestamptz, -- when the next cursor is due, if none was due
    database_now   timestamptz, -- the clock by which the claim judged
    -- No cursor is due before due_floor, and none becomes ready between database_now and next_floor.
    -- NULL: unknown.
    due_floor      timestamptz,
    next_floor     timestamptz
);

-- One row of the result of belfry.claim. item says what the row describes, and only the columns of that
-- item are set. The rows of messages follow the row of their partition. The summary is last.
-- pkg/engine/store/internal/claim/result.go names the values of item and outcome.
CREATE TYPE belfry.claim_row AS (
    item           smallint, -- 1: a partition that was due.  2: a message.  3: the summary.
    partition_id   bigint,   -- for items 1 and 2
    -- The columns of item 1 begin here. outcome says what the claim did:
    -- 1: It delivered messages of the log.
    -- 2: It delivered redriven messages.
    -- 3: It delivered nothing and updated the cursor, usually because nothing is due any more.
    -- 4: It delivered nothing, because it found no visible message. The cursor is still due, and the
    --    caller must settle the cursor (store/settle).
    -- 5: It delivered nothing, because the queue or the group is paused.
    -- 6: The limits of the group allow no more. They allow a message at ready_at at the latest. The claim may
    --    have delivered messages, also of this partition.
    outcome        smallint,
    ready_at       timestamptz, -- of the cursor, after the claim; with a lease, the end of the lease
    -- A wake must follow the commit: ready_at is NULL, or redriven messages wait for a retry delay.
    needs_wake     boolean,
    -- The claim moved the cursor past some messages. expired counts the expired messages, and given_up
    -- the messages that had reached maxDeliveries. NULL: none.
    expired        bigint,
    given_up       bigint,
    skipped        bigint, -- The messages that had reached maxDeliveries and that the group skips. NULL: none.
    -- With autoAck: the data for an undo of the delivery. outcome 1: failures and attempts of the first
    -- message (store/unconsume). outcome 2: the deleted redrives (store/redrive_restore).
    undo           json,

    -- The columns of item 2.
    seq            bigint,
    id             uuid,
    transaction_id text,
    trace_id       uuid,
    payload        json,
    created_at     timestamptz,
    producer_sub   text,
    headers        json,
    encrypted      boolean,
    attempt        integer, -- deliveries under a lease, including this one; 0 with autoAck

    -- The columns of item 3.
    group_exists   boolean,     -- the group, its queue and its cursor in the requested partition exist
    was_due        boolean,     -- a cursor was due; another session may have locked it
    next_ready_at  timestamptz, -- when the next cursor is due, if none was due
    database_now   timestamptz, -- the claim compared ready_at with this instant
    -- No cursor has a ready_at before due_floor, or between database_now and next_floor. NULL: unknown.
    due_floor      timestamptz,
    next_floor     timestamptz
);

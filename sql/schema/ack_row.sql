-- One row of the result of belfry.apply_acks. item says what the row describes, and only the columns of
-- that item are set. pkg/engine/store/internal/ack/result.go names the values of item and verdict.
CREATE TYPE belfry.ack_row AS (
    -- 1: an ack with one of the verdicts below.
    -- 2: a cursor that was locked. Its acks without a row of item 1 were applied.
    item         smallint,
    entry        integer, -- For item 1: the index of the ack.
    -- 1: The lease of the ack is not the live lease of the cursor.
    -- 2: An earlier message failed in the same call, so this message is redelivered.
    -- 3: The status has no effect.
    -- 4: The ack was applied, and the message is a dead letter.
    -- 5: The cursor is blocked, so only an operator or a dlq ack can finish the message.
    -- 6: The ack was applied, and the message has blocked the cursor.
    -- 7: The ack was applied, and the message is skipped.
    verdict      smallint,
    cursor_index integer, -- This column and all later columns are for item 2.
    partition_id bigint,
    group_id     bigint,
    lease_before uuid, -- The live lease before the acks.
    -- The call that ended the lease. 0: no lease was live. NULL: the lease is still live.
    ended_by     integer,
    -- The new ready_at of the cursor, and the seconds until then. They are set if the acks ended the
    -- lease, or changed the cursor while no lease was live.
    ready_at     timestamptz,
    ready_in     float8,
    -- A wake must follow the commit: ready_at is NULL, or the cursor has or had redriven messages.
    needs_wake   boolean,
    -- The acks ended a lease of a group whose limits count leases, so a claim that they refused may succeed.
    gives_room   boolean
);

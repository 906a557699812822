-- One row of the result of belfry.apply_acks. item says what the row describes, and only the columns
-- of that item are set. pkg/engine/store/internal/ack/result.go names the values of item and verdict.
CREATE TYPE belfry.ack_row AS (
    -- 1: an ack that was not simply applied.
    -- 2: a cursor that was locked. Its acks without a row of item 1 were applied.
    item         smallint,
    entry        integer, -- of an ack: its index
    -- 1: The lease of the ack is not the live lease of the cursor.
    -- 2: An earlier message failed in the same call, so this one is redelivered.
    -- 3: The status has no effect.
    -- 4: The ack was applied, and the message is a dead letter.
    verdict      smallint,
    cursor_index integer, -- of a cursor
    partition_id bigint,
    group_id     bigint,
    lease_before uuid, -- the live lease before the acks
    -- The call that ended the lease. 0: no lease was live. NULL: the lease is still live.
    ended_by     integer,
    -- When the cursor is ready, if the acks ended its lease, or changed it while no lease was live.
    ready_at     timestamptz,
    ready_in     float8,
    -- A wake must follow the commit. The cursor has no ready_at, or it waits for the retry delay of
    -- redriven messages alone.
    needs_wake   boolean
);

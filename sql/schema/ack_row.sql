-- One row of the result of belfry.apply_acks. item says what the row describes, and only the columns
-- of that item are set. pkg/store/internal/ack/result.go names the values of item and verdict.
CREATE TYPE belfry.ack_row AS (
    -- 1: an ack that was not simply applied.
    -- 2: a cursor that was locked. Its acks without a row of item 1 were applied.
    item         smallint,

    -- Of an ack: the index of its entry, and of its message in an entry of several ones. NULL: the
    -- verdict is for all messages of the entry.
    entry        integer,
    message      integer,
    -- 1: The message does not exist.
    -- 2: The lease of the ack is not the live lease of the cursor.
    -- 3: An earlier message failed in the same call, so this one is redelivered.
    -- 4: The status has no effect.
    -- 5: The ack was applied, and the message is a dead letter.
    verdict      smallint,

    -- Of a cursor: its index, and its key.
    cursor_index integer,
    partition_id bigint,
    group_id     bigint,
    -- The live lease before the acks. NULL: none.
    lease_before uuid,
    -- The call that ended the lease. 0: no lease was live. NULL: the lease is still live.
    ended_by     integer,
    -- When the cursor is ready, if the acks changed it while no lease was live, or ended its lease.
    ready_at     timestamptz,
    ready_in     float8,
    -- A wake must follow the commit. The cursor has no ready_at, or it waits for the retry delay of
    -- redriven messages alone.
    needs_wake   boolean
);

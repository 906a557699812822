-- The changes that acks make to one cursor. belfry.apply_acks collects one row for each cursor and then
-- writes all cursors. lease_before and ended_by mean the same as in belfry.ack_row.
CREATE TYPE belfry.ack_change AS (
    place            tid, -- the ctid of the locked cursor
    cursor_index     integer,
    partition_id     bigint,
    group_id         bigint,
    lease_before     uuid,
    ended_by         integer,
    released         boolean, -- the acks left no live lease, so apply_acks computes ready_at
    committed        bigint,
    skip             int8multirange,
    failures         integer,
    attempts         integer,
    retry_at         timestamptz,
    settled          integer, -- the number of redriven messages that the acks settled
    settled_of_lease integer, -- the number of settled messages that the lease had delivered
    judged_at        timestamptz,
    limits_id        bigint -- the limits of the group
);

-- What acks change in one cursor: belfry.apply_acks collects these rows and then writes all of them.
CREATE TYPE belfry.ack_change AS (
    place            tid,     -- of the locked cursor
    cursor_index     integer,
    partition_id     bigint,
    group_id         bigint,
    lease_before     uuid,    -- see ack_row
    ended_by         integer, -- see ack_row
    released         boolean, -- the lease ends, or none was live: ready_at is computed
    committed        bigint,
    skip             bigint[],
    failures         integer,
    attempts         integer,
    retry_at         timestamptz,
    settled          integer, -- redriven messages that were settled
    settled_of_lease integer, -- those of them that the lease delivered
    judged_at        timestamptz
);

-- What acks change in one cursor. belfry.apply_acks collects these rows and then writes all of them.
CREATE TYPE belfry.ack_change AS (
    place            tid, -- of the locked cursor
    cursor_index     integer,
    partition_id     bigint,
    group_id         bigint,
    lease_before     uuid,
    ended_by         integer,
    released         boolean, -- no lease is live now, so ready_at is computed
    committed        bigint,
    skip             int8multirange,
    failures         integer,
    attempts         integer,
    retry_at         timestamptz,
    settled          integer, -- redriven messages that were settled
    settled_of_lease integer, -- those that the lease delivered
    judged_at        timestamptz
);

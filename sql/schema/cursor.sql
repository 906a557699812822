-- The position of a consumer group in a partition, and the lease of the partition.
--
-- The table has no unique index: an update would examine every version of its key. Locks ensure that
-- a pair has one cursor. open_partitions makes a partition and its cursors under a share lock on the
-- queue. join_group makes missing cursors under an update lock on the queue, and join_page under an
-- update lock on the group.
CREATE TABLE belfry.cursor (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    committed    bigint NOT NULL DEFAULT 0, -- The group has finished every message up to this seq.
    -- The earliest instant at which a pop could return a message. NULL: nothing to return.
    ready_at     timestamptz,
    lease_until  timestamptz,
    -- The last seq that the lease covers. A negative value marks the lease of a redelivery,
    -- and its absolute value is the number of messages that are not settled yet.
    lease_end    bigint,
    lease_id     uuid,
    -- Deliveries and failed acks of the first message after committed.
    attempts     integer NOT NULL DEFAULT 0,
    failures     integer NOT NULL DEFAULT 0,
    -- Messages that the group has consumed, and the instant of the last one.
    consumed     bigint NOT NULL DEFAULT 0,
    consumed_at  timestamptz,
    -- No pop returns the first message after committed before this instant. A failed ack sets
    -- it. The value has no meaning once it has passed or the cursor has moved.
    retry_at     timestamptz,
    alone_until  bigint, -- Up to this seq, messages are delivered one at a time (maxDeliveries).
    -- Messages that the cursor passed because they had expired.
    expired      bigint NOT NULL DEFAULT 0,
    -- Set while the subscription of the group starts in the future; until then ready_at is NULL. A
    -- wake moves the cursor over earlier messages, and clears start_at at the first later message.
    start_at     timestamptz,
    redrives     integer, -- The number of rows in belfry.redrive for this cursor; NULL: none.
    skip         int8multirange -- Dead-lettered seqs above committed; NULL: none.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.2, vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX cursor_place ON belfry.cursor (partition_id, group_id);
CREATE INDEX cursor_ready ON belfry.cursor (group_id, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX cursor_asleep ON belfry.cursor (partition_id, group_id) WHERE ready_at IS NULL OR redrives > 0; -- for wake_partitions
CREATE INDEX cursor_lease ON belfry.cursor (lease_id) WHERE lease_id IS NOT NULL;
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.cursor REPLICA IDENTITY FULL;

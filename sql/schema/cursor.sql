-- The position of a consumer group in a partition, and the lease of the partition.
--
-- The table has no unique index: each update would examine every version of the key in it. Locks ensure
-- that a group has one cursor in a partition. open_partitions creates a partition and its cursors under
-- a share lock on the queue. join_group creates missing cursors under an update lock on the queue, and
-- join_page under an update lock on the group.
CREATE TABLE belfry.cursor (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    committed    bigint NOT NULL DEFAULT 0, -- The group has finished every message up to this seq.
    -- The earliest instant at which a pop could return a message. NULL: nothing to return.
    ready_at     timestamptz,
    lease_until  timestamptz,
    -- The last seq that the lease covers. A negative value: the lease delivered redriven messages, and
    -- the absolute value is the number of messages that are not settled yet.
    lease_end    bigint,
    lease_id     uuid,
    -- attempts counts deliveries, and failures counts failed acks, of the first message after committed.
    attempts     integer NOT NULL DEFAULT 0,
    failures     integer NOT NULL DEFAULT 0,
    -- The number of messages that the group has consumed, and the instant of the last consumption.
    consumed     bigint NOT NULL DEFAULT 0,
    consumed_at  timestamptz,
    -- Set by a failed ack: no pop returns the first message after committed before this instant. The
    -- value has no meaning after that instant, or after the cursor has moved. belfry.blocked(): an operator
    -- must decide about that message.
    retry_at     timestamptz,
    alone_until  bigint, -- Up to this seq, messages are delivered one at a time (maxDeliveries).
    -- The number of messages that the cursor passed because they had expired.
    expired      bigint NOT NULL DEFAULT 0,
    -- Set if the group starts in the future. Until then ready_at is NULL, and a wake moves the cursor
    -- past new messages. At the first message after start_at a wake clears start_at.
    start_at     timestamptz,
    tenant_id    bigint, -- The tenant of the partition.
    redrives     integer, -- The number of rows in belfry.redrive for this cursor; NULL: none.
    skip         int8multirange -- Seqs above committed that are dead letters or skipped; NULL: none.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.2, vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX cursor_place ON belfry.cursor (partition_id, group_id);
CREATE INDEX cursor_ready ON belfry.cursor (group_id, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX cursor_asleep ON belfry.cursor (partition_id, group_id) WHERE ready_at IS NULL OR redrives > 0; -- for wake_partitions
CREATE INDEX cursor_tenant ON belfry.cursor (group_id, tenant_id, ready_at) WHERE tenant_id IS NOT NULL AND ready_at IS NOT NULL;
CREATE INDEX cursor_blocked ON belfry.cursor (group_id, partition_id) WHERE retry_at = timestamptz '2200-01-01 00:00:00+00'; -- belfry.blocked()
CREATE INDEX cursor_lease ON belfry.cursor (lease_id) WHERE lease_id IS NOT NULL;
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.cursor REPLICA IDENTITY FULL;

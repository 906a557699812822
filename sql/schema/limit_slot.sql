-- A place for one live lease of a group with a concurrency. A group has one row for each number from 1 to the
-- limit, and a claim makes missing rows. A lease of a limited group exists only together with its row.
--
-- A row is free if its lease is over: the cursor of the partition has another lease, or the lease has ended. So
-- the end of a lease writes nothing here, and a crash leaves no row occupied. belfry.take_slot has the proof
-- that the group never has more live leases than the limit.
CREATE TABLE belfry.limit_slot (
    group_id     bigint NOT NULL,
    tenant_id    bigint NOT NULL DEFAULT 0, -- 0: the row counts for the whole group.
    slot         bigint NOT NULL,
    partition_id bigint NOT NULL, -- The partition of the lease.
    lease_id     uuid NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false, toast.vacuum_truncate = false);
-- Not unique: each update would examine every version of the key. An advisory lock guards the insert.
CREATE INDEX limit_slot_place ON belfry.limit_slot (group_id, tenant_id, slot);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.limit_slot REPLICA IDENTITY FULL;

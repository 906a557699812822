-- A partition: an ordered log of a queue, and the unit of claiming. A push locks this row. No column
-- that a push writes is indexed, so a push is a HOT update while the page of the row has room.
--
-- The table has no primary key: each update would examine every version of the key in a unique index,
-- and a held snapshot keeps old versions. ids are unique because the sequence of the table assigns them.
--
-- How a statement reaches the newest version of a row: in an index, versions of one key are ordered by
-- their position in the table, and a new version has a higher position. The clause "id >= x AND id <= x
-- ORDER BY id DESC LIMIT 1" walks from the high end, and stops at the first visible version. With "id =
-- x" the planner drops the order. The statement then updates the locked row by its position (ctid).
--
-- A new version that does not fit into the page of the row gets an entry in every index. The low
-- fillfactor makes this rare. vacuum_truncate is off because truncation locks out every session.
CREATE TABLE belfry.partition (
    id            bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    queue_id      bigint NOT NULL REFERENCES belfry.queue (id),
    -- The seq of the newest message; 0 if nothing was pushed yet.
    last_seq      bigint NOT NULL DEFAULT 0,
    last_push_at  timestamptz,
    -- The latest visible_at of all messages. After that instant no message is delayed.
    visible_until timestamptz,
    trimmed       bigint NOT NULL DEFAULT 0, -- Every message up to this seq is deleted.
    -- Deleted messages above trimmed. The partition stores last_seq - trimmed - holes messages.
    holes         bigint NOT NULL DEFAULT 0,
    -- Every message up to this seq is deleted, or is kept for a dead letter.
    swept         bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    uid           uuid NOT NULL DEFAULT gen_random_uuid(),
    -- The queue is being deleted, and pushes are refused.
    closed        boolean NOT NULL DEFAULT false,
    -- No pop returns a message of the partition; see belfry.change_pause.
    paused        boolean NOT NULL DEFAULT false,
    tenant_id     bigint, -- NULL: the partition has no tenant.
    pause_reason  text, -- The reason that the operator gave for the pause.
    name          text NOT NULL CHECK (octet_length(name) <= 255 AND name NOT IN ('.', '..')),
    UNIQUE (queue_id, name)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false, toast.vacuum_truncate = false);
-- Deduplication is off, because Postgres reads the entries of a posting list from the lowest position
-- up. Equal keys are rare here, so the index stays small.
CREATE INDEX partition_id ON belfry.partition (id) WITH (deduplicate_items = off);
CREATE INDEX partition_paused ON belfry.partition (queue_id) WHERE paused;
CREATE INDEX partition_tenant ON belfry.partition (tenant_id) WHERE tenant_id IS NOT NULL;
CREATE INDEX partition_uid ON belfry.partition (uid);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.partition REPLICA IDENTITY USING INDEX partition_queue_id_name_key;

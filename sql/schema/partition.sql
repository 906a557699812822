-- A partition: an ordered lane of a queue, and the unit of claiming. A push locks this row.
-- No column that a push writes is indexed, so a push is a HOT update while its page has room.
--
-- The table has no primary key: a unique index examines every version of its key, and a held
-- snapshot keeps old versions. The id comes from the sequence of the table, and the uid is random.
--
-- How a statement reaches the newest version of a row: in an index, versions of one key are
-- ordered by their place in the table, and a new version has the higher place. The clause
-- "id >= x AND id <= x ORDER BY id DESC LIMIT 1" walks from the high end, and stops at the
-- first visible version. With "id = x" the planner drops the order. The statement writes the
-- locked row by its place (ctid).
--
-- A row that does not fit into its page gets new entries in every index. The low fillfactor
-- makes that rare. vacuum_truncate is off because truncation locks out every session.
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
    -- The queue is being deleted, and nobody may push any more.
    closed        boolean NOT NULL DEFAULT false,
    -- No pop returns a message of it; see belfry.change_pause.
    paused        boolean NOT NULL DEFAULT false,
    name          text NOT NULL CHECK (octet_length(name) <= 255 AND name NOT IN ('.', '..')),
    UNIQUE (queue_id, name)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false, toast.vacuum_truncate = false);
-- Without deduplication, because entries that share one posting list are walked from the
-- lowest place up. Equal keys are rare here, so the index stays small.
CREATE INDEX partition_id ON belfry.partition (id) WITH (deduplicate_items = off);
CREATE INDEX partition_paused ON belfry.partition (queue_id) WHERE paused;
CREATE INDEX partition_uid ON belfry.partition (uid);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.partition REPLICA IDENTITY USING INDEX partition_queue_id_name_key;

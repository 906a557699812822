package check

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Execer is a connection, a transaction or a pool of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// sqlWatch creates the triggers. A trigger runs in the transaction of a change, under the lock of the cursor or the
// partition. So a record exists only if the change is committed, and the records have the order of the changes. The
// text of the current statement shows the reason of a change.
const sqlWatch = `
CREATE SCHEMA IF NOT EXISTS chaos;
CREATE TABLE chaos.lease_change (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    old_lease    uuid,
    old_until    timestamptz,
    new_lease    uuid,
    new_until    timestamptz,
    -- The cause: 'lease', or 'joined', 'sought' or 'fell' with the old and the new position of the
    -- cursor, and the messages skipped from there on.
    how          text NOT NULL DEFAULT 'lease',
    old_seq    bigint,
    new_seq    bigint,
    skip         int8multirange,
    at           timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE FUNCTION chaos.note_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.lease_change (partition_id, group_id, old_lease, old_until, new_lease, new_until)
    VALUES (NEW.partition_id, NEW.group_id, OLD.lease_id, OLD.lease_until, NEW.lease_id, NEW.lease_until);
    RETURN NULL;
END $$;
CREATE TRIGGER note_lease AFTER UPDATE ON belfry.cursor FOR EACH ROW
    WHEN (OLD.lease_id IS DISTINCT FROM NEW.lease_id OR OLD.lease_until IS DISTINCT FROM NEW.lease_until)
    EXECUTE FUNCTION chaos.note_lease();

-- Triggers run in the order of their names, so note_move runs after note_lease.
CREATE FUNCTION chaos.note_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.lease_change (partition_id, group_id, how, old_seq, new_seq, skip)
    VALUES (NEW.partition_id, NEW.group_id,
            CASE WHEN current_query() LIKE '%belfry.seek_cursors(%' THEN 'sought' ELSE 'fell' END,
            OLD.committed, NEW.committed, NEW.skip);
    RETURN NULL;
END $$;
CREATE TRIGGER note_move AFTER UPDATE ON belfry.cursor FOR EACH ROW
    WHEN (NEW.committed < OLD.committed OR current_query() LIKE '%belfry.seek_cursors(%')
    EXECUTE FUNCTION chaos.note_move();

CREATE FUNCTION chaos.note_join() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.lease_change (partition_id, group_id, how, new_seq, skip)
    VALUES (NEW.partition_id, NEW.group_id, 'joined', NEW.committed, NEW.skip);
    RETURN NULL;
END $$;
CREATE TRIGGER note_join AFTER INSERT ON belfry.cursor FOR EACH ROW EXECUTE FUNCTION chaos.note_join();

-- Keeps the names of deleted groups.
CREATE TABLE chaos.group_name (id bigint PRIMARY KEY, name text NOT NULL);
INSERT INTO chaos.group_name (id, name) SELECT g.id, g.name FROM belfry.consumer_group g;
CREATE FUNCTION chaos.note_group() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.group_name (id, name) VALUES (NEW.id, NEW.name);
    RETURN NULL;
END $$;
CREATE TRIGGER note_group AFTER INSERT ON belfry.consumer_group FOR EACH ROW EXECUTE FUNCTION chaos.note_group();

-- Every deleted message with the reason, and whether some group still needed it.
CREATE TABLE chaos.deletion (
    queue_id       bigint NOT NULL,
    partition_id   bigint NOT NULL,
    queue          text NOT NULL,
    partition      text NOT NULL,
    seq            bigint NOT NULL,
    id             uuid NOT NULL,
    transaction_id text NOT NULL,
    -- 'asked' (by name), 'swept', or 'purged' (with its queue).
    how            text NOT NULL,
    age            interval NOT NULL,
    -- unread: some group had not passed it, or no group reads the partition. held: a live lease
    -- covered it.
    unread         boolean NOT NULL,
    held           boolean NOT NULL
);
CREATE FUNCTION chaos.note_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.deletion (queue_id, partition_id, queue, partition, seq, id, transaction_id, how, age, unread, held)
    SELECT q.id, p.id, q.name, p.name, OLD.seq, OLD.id, OLD.transaction_id,
           CASE WHEN current_query() LIKE '%belfry.delete_message(%' THEN 'asked'
                WHEN current_query() LIKE '%belfry.sweep_partition(%' THEN 'swept' ELSE 'purged' END,
           clock_timestamp() - OLD.created_at,
           OLD.seq > coalesce((SELECT min(c.committed) FROM belfry.cursor c WHERE c.partition_id = p.id), 0),
           EXISTS (SELECT 1 FROM belfry.cursor c
                    WHERE c.partition_id = p.id AND c.lease_until > clock_timestamp()
                      AND OLD.seq > c.committed AND OLD.seq <= c.lease_end)
      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
     WHERE p.id = OLD.partition_id;
    RETURN NULL;
END $$;
CREATE TRIGGER note_deletion AFTER DELETE ON belfry.message FOR EACH ROW EXECUTE FUNCTION chaos.note_deletion();`

// sqlWatchMore creates triggers for redelivered messages, which their lease identifies, and for removed partitions.
const sqlWatchMore = `
CREATE TABLE chaos.redelivery (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    lease_id     uuid NOT NULL,
    seq          bigint NOT NULL
);
CREATE FUNCTION chaos.note_redelivery() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.redelivery (partition_id, group_id, lease_id, seq)
    VALUES (NEW.partition_id, NEW.group_id, NEW.lease_id, NEW.seq);
    RETURN NULL;
END $$;
CREATE TRIGGER note_redelivery AFTER UPDATE ON belfry.redrive FOR EACH ROW
    WHEN (NEW.lease_id IS NOT NULL AND OLD.lease_id IS DISTINCT FROM NEW.lease_id)
    EXECUTE FUNCTION chaos.note_redelivery();

CREATE TABLE chaos.removal (
    partition_id bigint PRIMARY KEY,
    queue_id     bigint NOT NULL,
    partition    text NOT NULL,
    last_seq     bigint NOT NULL,
    -- The time since the last push, and the number of messages in the partition.
    idle         interval NOT NULL,
    messages     bigint NOT NULL
);
CREATE FUNCTION chaos.note_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.removal (partition_id, queue_id, partition, last_seq, idle, messages)
    VALUES (OLD.id, OLD.queue_id, OLD.name, OLD.last_seq, clock_timestamp() - coalesce(OLD.last_push_at, OLD.created_at),
            (SELECT count(*) FROM belfry.message m WHERE m.partition_id = OLD.id));
    RETURN NULL;
END $$;
CREATE TRIGGER note_removal AFTER DELETE ON belfry.partition FOR EACH ROW
    WHEN (current_query() LIKE '%belfry.remove_idle_partition(%') EXECUTE FUNCTION chaos.note_removal();

CREATE TABLE chaos.removed_cursor (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    committed    bigint NOT NULL,
    consumed     bigint NOT NULL
);
CREATE FUNCTION chaos.note_removed_cursor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.removed_cursor (partition_id, group_id, committed, consumed)
    VALUES (OLD.partition_id, OLD.group_id, OLD.committed, OLD.consumed);
    RETURN NULL;
END $$;
CREATE TRIGGER note_removed_cursor AFTER DELETE ON belfry.cursor FOR EACH ROW
    WHEN (current_query() LIKE '%belfry.remove_idle_partition(%') EXECUTE FUNCTION chaos.note_removed_cursor();`

// Watch installs triggers in a schema named chaos. They record changes for ReadLeasePeriods and ReadDeletions: each
// change of a lease, each cursor created or moved back, each redelivered message, each deleted message and each
// removed partition. Each change adds a row. The caller calls Watch once, before the run.
func Watch(ctx context.Context, db Execer) error {
	if _, err := db.Exec(ctx, sqlWatch+sqlWatchMore); err != nil {
		return fmt.Errorf("installing the triggers of the checker: %w", err)
	}
	return nil
}

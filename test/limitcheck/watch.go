package limitcheck

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Database is a connection, a transaction or a pool of pgx.
type Database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// sqlWatch records each change of a lease, under the lock of the cursor. messages is the number of messages that a new lease
// delivers, if the cursor skips none of them. live is the number of live leases of the group that the transaction sees.
const sqlWatch = `
CREATE SCHEMA limitcheck;
CREATE TABLE limitcheck.lease_change (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id     bigint NOT NULL,
    partition_id bigint NOT NULL,
    lease        uuid,
    until        timestamptz,
    messages     bigint,
    live         bigint,
    began        timestamptz NOT NULL DEFAULT statement_timestamp(),
    at           timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE FUNCTION limitcheck.note() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO limitcheck.lease_change (group_id, partition_id, lease, until, messages, live)
    VALUES (NEW.group_id, NEW.partition_id, NEW.lease_id, NEW.lease_until,
            CASE WHEN NEW.lease_end < 0 THEN -NEW.lease_end ELSE NEW.lease_end - NEW.committed END,
            (SELECT count(*) FROM belfry.cursor c WHERE c.group_id = NEW.group_id AND c.lease_id IS NOT NULL AND c.lease_until > clock_timestamp()));
    RETURN NULL;
END $$;
CREATE TRIGGER limitcheck AFTER UPDATE ON belfry.cursor FOR EACH ROW
    WHEN (OLD.lease_id IS DISTINCT FROM NEW.lease_id OR OLD.lease_until IS DISTINCT FROM NEW.lease_until)
    EXECUTE FUNCTION limitcheck.note();`

// Watch installs the trigger. The caller calls it once, before the first claim.
func Watch(ctx context.Context, db Database) error {
	if _, err := db.Exec(ctx, sqlWatch); err != nil {
		return fmt.Errorf("installing the trigger of limitcheck: %w", err)
	}
	return nil
}

// Lease is a lease by the clock of the database.
type Lease struct {
	Partition int64
	ID        string
	Messages  int
	// Began is the begin of the statement that took the lease. From is an instant after it took its place and its tokens.
	Began, From time.Time
	// Until is the instant at which the lease was released, or its planned end.
	Until time.Time
	// Live is the number of live leases that the claim saw, with its own.
	Live int
}

const sqlRead = `
SELECT c.partition_id, coalesce(c.lease::text, ''), coalesce(c.until, c.at), coalesce(c.messages, 0), c.live, c.began, c.at
  FROM limitcheck.lease_change c
  JOIN belfry.consumer_group g ON g.id = c.group_id
 WHERE g.name = $1
 ORDER BY c.id`

// Read returns the leases of all groups with a name, in the order of the records.
func Read(ctx context.Context, db Database, group string) ([]Lease, error) {
	rows, err := db.Query(ctx, sqlRead, group)
	if err != nil {
		return nil, fmt.Errorf("reading leases: %w", err)
	}
	var leases []Lease
	current := map[int64]int{} // the index of the current lease of a partition
	var l Lease
	_, err = pgx.ForEachRow(rows, []any{&l.Partition, &l.ID, &l.Until, &l.Messages, &l.Live, &l.Began, &l.From}, func() error {
		last, leased := current[l.Partition]
		if leased && leases[last].ID != l.ID && leases[last].Until.After(l.From) {
			leases[last].Until = l.From
		}
		switch {
		case l.ID == "":
			delete(current, l.Partition)
		case leased && leases[last].ID == l.ID:
			leases[last].Until = l.Until
		default:
			current[l.Partition] = len(leases)
			leases = append(leases, l)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading leases: %w", err)
	}
	return leases, nil
}

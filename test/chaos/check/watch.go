package check

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Execer is a connection, a transaction or a pool of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// The trigger runs in the transaction that changes a lease, under the lock of
// the cursor: its rows are there exactly if the change is, and in its order.
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
    EXECUTE FUNCTION chaos.note_lease();`

const sqlLeaseChanges = `
SELECT q.name, p.name, g.name, coalesce(l.old_lease::text, ''), coalesce(l.old_until, l.at), coalesce(l.new_lease::text, ''),
       coalesce(l.new_until, l.at), l.at
  FROM chaos.lease_change l
  JOIN belfry.partition p ON p.id = l.partition_id
  JOIN belfry.queue q ON q.id = p.queue_id
  JOIN belfry.consumer_group g ON g.id = l.group_id
 WHERE q.deleted_at IS NULL AND q.name = ANY ($1)
 ORDER BY l.id`

// Watch makes the database write down every change of a lease, for ReadTenures.
// It adds a schema named chaos and a trigger on belfry.cursor, so it costs a row
// for each lease that is given, prolonged or ended. It is called once, before
// the run.
func Watch(ctx context.Context, db Execer) error {
	if _, err := db.Exec(ctx, sqlWatch); err != nil {
		return fmt.Errorf("watching leases: %w", err)
	}
	return nil
}

// ReadTenures reads the lives of leases since Watch. A lease that another took
// the place of counts until it would have expired.
func ReadTenures(ctx context.Context, db Querier, queues []string) ([]Tenure, error) {
	rows, err := db.Query(ctx, sqlLeaseChanges, queues)
	if err != nil {
		return nil, fmt.Errorf("reading changes of leases: %w", err)
	}
	var tenures []Tenure
	open := map[readerName]int{} // index into tenures; the lease that lives
	var name readerName
	var oldLease, newLease string
	var oldUntil, newUntil, at time.Time
	_, err = pgx.ForEachRow(rows, []any{
		&name.queue, &name.partition, &name.group, &oldLease, &oldUntil, &newLease, &newUntil, &at,
	}, func() error {
		last, living := open[name]
		if living && newLease == "" && at.Before(oldUntil) {
			tenures[last].Until = at // released
		}
		switch {
		case newLease == "":
			delete(open, name)
		case living && tenures[last].LeaseID == newLease:
			tenures[last].Until = newUntil
		default:
			open[name] = len(tenures)
			tenures = append(tenures, Tenure{
				Queue: name.queue, Partition: name.partition, Group: name.group, LeaseID: newLease, From: at, Until: newUntil,
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading changes of leases: %w", err)
	}
	return tenures, nil
}

package stats

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlLeases   = sql.Query("stats/leases")
	sqlTables   = sql.Query("stats/tables")
	sqlSettings = sql.Query("stats/settings")
	sqlSlots    = sql.Query("stats/slots")
)

// Leases counts the live leases, their partitions and the messages that they cover.
type Leases struct{ Leases, Partitions, Messages int64 }

// Leases counts the leases on queues that match a pattern of allowed (nil: on all). The cost is O(leases).
// Errors: CodeUnavailable.
func (r *Reader) Leases(ctx context.Context, allowed []string) (found Leases, err error) {
	err = r.pool.ScanRow(ctx, []any{&found.Leases, &found.Partitions, &found.Messages}, sqlLeases, postgres.LikePatterns(allowed))
	return found, postgres.Wrapf(err, "counting the leases")
}

// Table is a table of the schema, with its statistics in Postgres.
type Table struct {
	Name                                   string
	TotalBytes, TableBytes, IndexBytes     int64
	Live, Dead, Updated, HotUpdated        int64
	LastAutovacuum                         zeronull.Timestamptz
	AutovacuumCount                        int64
	HeapRead, HeapHit, IndexRead, IndexHit int64
	Database                               string
}

// Vacuumed returns when autovacuum last ran; the zero time: never.
func (t *Table) Vacuumed() time.Time { return time.Time(t.LastAutovacuum) }

// Tables lists the tables of the schema, the largest first. Errors: CodeUnavailable.
func (r *Reader) Tables(ctx context.Context) ([]Table, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlTables, pgx.RowToStructByName[Table])
	return found, postgres.Wrapf(err, "listing the tables")
}

// Setting is a setting of Postgres that matters here.
type Setting struct {
	Name, Value string
	// Source is where the value comes from, in the words of pg_settings.
	Source string
	// Pending: another value is in the file, and needs a restart.
	Pending bool
}

// Settings lists the settings of Postgres that matter here, by topic. Errors: CodeUnavailable.
func (r *Reader) Settings(ctx context.Context) ([]Setting, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlSettings, pgx.RowToStructByName[Setting])
	return found, postgres.Wrapf(err, "listing the settings of Postgres")
}

// Slot is a replication slot.
type Slot struct {
	// Kind is physical or logical.
	Name, Kind string
	Active     bool
	// Kept is the WAL that the slot keeps, in bytes.
	Kept int64
}

// Slots lists at most 100 replication slots of the cluster, those without a reader first. Errors: CodeUnavailable.
func (r *Reader) Slots(ctx context.Context) ([]Slot, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlSlots, pgx.RowToStructByName[Slot])
	return found, postgres.Wrapf(err, "listing the replication slots")
}

package stats

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlDatabase   = sql.Query("insight/stats/database")
	sqlTables     = sql.Query("insight/stats/tables")
	sqlIndexes    = sql.Query("insight/stats/indexes")
	sqlStatements = sql.Query("insight/stats/statements")
	sqlSettings   = sql.Query("insight/stats/settings")
	sqlSlots      = sql.Query("insight/stats/slots")
)

// Blocks counts blocks that Postgres has read: Read from the disk or the operating system, Hit from its shared buffers.
type Blocks struct{ Read, Hit int64 }

// Database describes the database with the schema belfry.
type Database struct {
	Name   string
	Blocks Blocks
	// SharedBuffers is the setting shared_buffers in blocks. SharedBuffersSize is its size in a readable unit.
	SharedBuffers, SharedBuffersSize string
}

// Database reads the statistics of the database. Errors: CodeUnavailable.
func (r *Reader) Database(ctx context.Context) (d Database, err error) {
	err = r.pool.ScanRow(ctx, []any{&d.Name, &d.Blocks.Read, &d.Blocks.Hit, &d.SharedBuffers, &d.SharedBuffersSize}, sqlDatabase)
	return d, postgres.Wrapf(err, "reading the counts of the database")
}

// Table is a table of the schema, with its statistics in Postgres.
type Table struct {
	Name                               string
	TotalBytes, TableBytes, IndexBytes int64
	// TotalSize, TableSize and IndexSize are the same sizes in a readable unit.
	TotalSize, TableSize, IndexSize string
	Live, Dead, Updated, HotUpdated int64
	// LastVacuum and LastAutovacuum are zero if there was no vacuum.
	LastVacuum, LastAutovacuum        zeronull.Timestamptz
	AutovacuumCount, AutoanalyzeCount int64
	Heap                              Blocks
}

// Tables lists the tables of the schema, the largest first. Errors: CodeUnavailable.
func (r *Reader) Tables(ctx context.Context) ([]Table, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlTables, func(row pgx.CollectableRow) (t Table, err error) {
		err = row.Scan(&t.Name, &t.TotalBytes, &t.TableBytes, &t.IndexBytes, &t.TotalSize, &t.TableSize, &t.IndexSize, &t.Live, &t.Dead,
			&t.Updated, &t.HotUpdated, &t.LastVacuum, &t.LastAutovacuum, &t.AutovacuumCount, &t.AutoanalyzeCount, &t.Heap.Read, &t.Heap.Hit)
		return t, err
	})
	return found, postgres.Wrapf(err, "listing the tables")
}

// Index is an index of the schema.
type Index struct {
	Table, Name string
	Blocks      Blocks
}

// Indexes lists the indexes of the schema by name. Errors: CodeUnavailable.
func (r *Reader) Indexes(ctx context.Context) ([]Index, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlIndexes, func(row pgx.CollectableRow) (i Index, err error) {
		err = row.Scan(&i.Table, &i.Name, &i.Blocks.Read, &i.Blocks.Hit)
		return i, err
	})
	return found, postgres.Wrapf(err, "listing the indexes")
}

// Statements lists at most 10 sessions whose statement began more than a second ago, the oldest first. Errors:
// CodeUnavailable.
func (r *Reader) Statements(ctx context.Context) ([]api.ActiveQuery, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlStatements, pgx.RowToStructByPos[api.ActiveQuery])
	return found, postgres.Wrapf(err, "listing the statements that run")
}

// Settings lists the settings of Postgres that matter to Belfry, by topic. Errors: CodeUnavailable.
func (r *Reader) Settings(ctx context.Context) ([]api.Setting, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlSettings, pgx.RowToStructByPos[api.Setting])
	return found, postgres.Wrapf(err, "listing the settings of Postgres")
}

// Slots lists at most 100 replication slots of the cluster. Slots without a reader are first. Errors: CodeUnavailable.
func (r *Reader) Slots(ctx context.Context) ([]api.ReplicationSlot, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlSlots, pgx.RowToStructByPos[api.ReplicationSlot])
	return found, postgres.Wrapf(err, "listing the replication slots")
}

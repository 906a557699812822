package live

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlGroups = sql.Query("insight/live/groups")

// Database implements Reader with Postgres.
type Database struct {
	pool  *postgres.Pool
	audit *audit.Log
}

// NewDatabase returns a Database that uses pool.
func NewDatabase(pool *postgres.Pool, audit *audit.Log) *Database { return &Database{pool, audit} }

// Groups implements Reader.
func (d *Database) Groups(ctx context.Context, lateAfter time.Duration, deadLetters int) (found Groups, err error) {
	groups, err := postgres.Collect(ctx, d.pool, sqlGroups, func(row pgx.CollectableRow) (g GroupState, err error) {
		var next pgtype.Float8
		err = row.Scan(&found.Now, &next, (*zeronull.Text)(&g.Queue), (*zeronull.Text)(&g.Group), (*postgres.Seconds)(&g.Age), (*postgres.Seconds)(&g.LateAfter),
			&boolOrFalse{&g.Behind}, &boolOrFalse{&g.DeadLetters})
		found.NextIn, found.HasNext = time.Duration(next.Float64*float64(time.Second)), next.Valid
		return g, err
	}, lateAfter.Seconds(), int64(deadLetters))
	if err != nil {
		return Groups{}, postgres.Wrapf(err, "reading which groups are beyond a threshold")
	}
	found.List = only(groups, func(g GroupState) bool { return g.Queue != "" })
	return found, nil
}

// boolOrFalse reads NULL as false.
type boolOrFalse struct{ to *bool }

// ScanBool implements pgtype.BoolScanner.
func (b *boolOrFalse) ScanBool(v pgtype.Bool) error {
	*b.to = v.Bool
	return nil
}

// Audit implements Reader.
func (d *Database) Audit(ctx context.Context, since time.Time, limit int64) ([]audit.Row, error) {
	return d.audit.List(ctx, audit.Filter{From: since}, audit.Key{}, limit)
}

// Package wake makes cursors ready after a commit, and announces the cursors that became ready.
//
// A wake follows each commit that may leave a cursor without ready_at (I3 of package store). The
// wake runs after the commit, so its error is not an error of the caller. Heal repeats a failed
// wake. The package also settles cursors that SQL consumers left due, because no wake can follow
// the commit of a SQL consumer. pkg/engine/store and other packages below it import this package.
package wake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlWake = sql.Query("engine/store/wake")

// Waker runs wakes. It is safe for concurrent use.
type Waker struct {
	pool    *postgres.Pool
	bus     *events.Bus
	log     *zap.Logger
	pending pendingSettle
}

// New returns a Waker that announces on bus.
func New(pool *postgres.Pool, bus *events.Bus, log *zap.Logger) *Waker {
	return &Waker{
		pool: pool, bus: bus, log: log,
		pending: pendingSettle{cursors: map[queue.Target]struct{}{}, signal: events.NewSignal()},
	}
}

// Announce publishes cursors that this instance made ready.
func (w *Waker) Announce(ready []queue.Ready) { w.bus.Ready(ready, events.Here) }

// Resync makes every waiting request probe again. Use it if it is unknown which partitions became
// ready.
func (w *Waker) Resync(reason string) { w.bus.Resync(reason, events.Here) }

// Wake wakes partitions and announces the cursors that became ready. It blocks for one statement.
// It logs an error, and Heal repeats the wake.
func (w *Waker) Wake(ctx context.Context, partitions []int64) {
	if len(partitions) == 0 {
		return
	}
	w.Announce(w.WakeOn(ctx, w.pool, partitions))
}

// Querier is a pool or a connection.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// WakeOn wakes partitions on conn and returns the cursors that became ready. It does not announce
// them.
func (w *Waker) WakeOn(ctx context.Context, conn Querier, partitions []int64) []queue.Ready {
	ready, _, err := ReadReady(conn.Query(ctx, sqlWake, partitions))
	if err != nil {
		w.failed(len(partitions), err)
	}
	return ready
}

// Queue adds the wake of partitions to b. Read reads its result.
func Queue(b *pgx.Batch, partitions []int64) { b.Queue(sqlWake, partitions) }

// Read reads the result of Queue. The commit before the wake is not affected by an error, so Read
// only logs it.
func (w *Waker) Read(results pgx.BatchResults, partitions int) []queue.Ready {
	ready, err := ReadReadyResult(results, "waking")
	if err != nil {
		w.failed(partitions, err)
	}
	return ready
}

func (w *Waker) failed(partitions int, err error) {
	w.log.Warn("a wake failed; a heal will repeat it", zap.Int("partitions", partitions), zap.Error(err))
	w.pool.SignalLoss()
}

// ReadReady reads rows of (group, partition, seconds until ready or NULL, ready_at). notReady are the
// partitions of the rows with NULL. The second parameter lets a caller pass both results of Query.
// ReadReady ignores it, because rows return the same error.
func ReadReady(rows pgx.Rows, _ error) (ready []queue.Ready, notReady []int64, err error) {
	var group, partition int64
	var seconds pgtype.Float8
	var at pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{&group, &partition, &seconds, &at}, func() error {
		if seconds.Valid {
			ready = append(ready, queue.Ready{Group: group, Partition: partition, In: Seconds(seconds.Float64), At: at.Time})
		} else {
			notReady = append(notReady, partition)
		}
		return nil
	})
	return ready, notReady, err
}

// Seconds returns s seconds as a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// ReadReadyResult reads the next result of a pipeline, which has the columns of ReadReady.
func ReadReadyResult(results pgx.BatchResults, step string) ([]queue.Ready, error) {
	ready, _, err := ReadReady(results.Query())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step, err)
	}
	return ready, nil
}

package history

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

func openPool(t *testing.T) *postgres.Pool {
	t.Helper()
	pool := enginetest.Pool(t, pgtest.Database(t))
	return pool
}

// newWriter returns a Writer on pool, as an instance has.
func newWriter(pool *postgres.Pool) (*Writer, *Recorder) {
	counts := NewRecorder(10)
	return NewWriter(pool, counts, Sources{
		Instance: Instance{ID: queue.NewID().String(), Hostname: "host", Port: 6632, PID: 1},
		Parked:   func() map[Key]int64 { return nil },
		Pool:     func() (size, idle, active int64) { return 3, 2, 1 },
	}, zap.NewNop()), counts
}

// A statement with the most rows ends within 50 ms on a machine without other load. Rows that are written
// again change nothing.
func TestTheStatementIsFastAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	w, counts := newWriter(pool)
	fill := func() {
		for i := range 2 * maxRows {
			name := fmt.Sprint("queue ", i)
			counts.Pushed([]queue.PushItem{{Queue: name}}, make([]queue.PushResult, 1))
			now := time.Now()
			counts.Delivered(&queue.Delivery{Group: "g", DatabaseNow: now, ReceivedAt: now, Messages: []queue.Message{
				{Partition: &queue.Partition{Queue: name}, CreatedAt: now.Add(-time.Second), Attempt: 1}}})
		}
	}
	write, fast := w.write, false
	w.write = func(ctx context.Context, queues, instances string) error {
		watch := stopwatch.Start(t)
		require.NoError(t, write(ctx, queues, instances))
		fast = fast || watch.Elapsed() < watch.Allowed(time.Second)
		return write(ctx, queues, instances)
	}
	const minutes = 5
	for i := range minutes {
		fill()
		w.begin(time.Now().Add(time.Duration(i)*time.Minute), false)
		w.flush(t.Context(), nil)
	}
	require.Empty(t, w.unwritten)
	var rows, instances, pushed, popped int64
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT at), sum(push_messages), sum(pop_messages) FROM belfry.history`).
		Scan(&rows, &instances, &pushed, &popped))
	require.LessOrEqual(t, rows, int64(minutes*maxRows))
	require.EqualValues(t, minutes, instances)
	require.EqualValues(t, 2*maxRows*minutes, pushed)
	require.EqualValues(t, 2*maxRows*minutes, popped)
	require.True(t, fast, "each statement of %d rows took more than a second", maxRows)
}

// A minute in which nothing was counted but errors of the database has a row of the instance, and none of a queue. It is
// written, and read before that.
func TestAMinuteWithNothingButErrorsIsWritten(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	w, counts := newWriter(pool)
	counts.DatabaseFailed()
	now := time.Now()
	unwritten, err := NewReader(pool, w, nil).Instances(t.Context(), Range{From: now.Add(-time.Hour), To: now.Add(time.Hour), Bucket: time.Minute}, nil, nil)
	require.NoError(t, err)
	require.NotEmpty(t, unwritten)
	queues, instances, err := w.collect(nil)
	require.NoError(t, err)
	require.NoError(t, w.write(t.Context(), queues, instances))
	var failed int64
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT sum(db_errors) FROM belfry.history_instance").Scan(&failed))
	require.EqualValues(t, 1, failed)
}

package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// A percentile of a sum of histograms is at most one bucket above the true percentile.
func TestPercentilesAreExactToOneBucket(t *testing.T) {
	t.Parallel()
	var parts [3]Latency
	var all []time.Duration
	for i := range 3000 {
		d := time.Duration(rand.Float64() * rand.Float64() * float64(time.Minute))
		all = append(all, d)
		parts[i%3].Observe(d)
	}
	var sum Latency
	for i := range parts {
		sum.add(&parts[i])
	}
	var read []Bucketed
	for _, element := range sum.elements() {
		read = append(read, Bucketed{int(element >> countBits), element & (1<<countBits - 1)})
	}
	slices.Sort(all)
	for _, p := range []float64{.01, .5, .9, .95, .99, 1} {
		want, got := all[int(p*float64(len(all)))-1], Percentile(read, p)
		require.GreaterOrEqual(t, got, want, p)
		require.LessOrEqual(t, float64(got), 1.26*float64(want)+float64(64*time.Microsecond), p)
	}
	require.Zero(t, Percentile(nil, .5))
}

// bucketOf returns the first bucket whose upper end is above the duration.
func TestEachDurationHasABucket(t *testing.T) {
	t.Parallel()
	for d := time.Microsecond; d < 4*time.Hour; d += d/7 + time.Microsecond {
		b := bucketOf(d)
		require.Less(t, d, upperEnd(b)+time.Microsecond, "%s", d)
		if b > 0 {
			require.GreaterOrEqual(t, d, upperEnd(b-1).Truncate(time.Microsecond), "%s", d)
		}
	}
	require.Zero(t, bucketOf(-time.Hour))
	require.Equal(t, buckets-1, bucketOf(1000*time.Hour))
}

// No count is lost when take runs while other goroutines count.
func TestNoCountIsLost(t *testing.T) {
	t.Parallel()
	r := NewRecorder(10)
	const workers, each = 4, 5000
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for range each {
				r.Pushed([]queue.PushItem{{Queue: "a"}, {Queue: "b"}, {Queue: "a"}}, []queue.PushResult{{}, {}, {Duplicate: true}})
			}
		})
	}
	taken := map[Key]*tally{}
	take := func() {
		now, _ := r.take()
		for key, one := range now {
			addTo(taken, key, one)
		}
	}
	for range 200 {
		take()
	}
	working.Wait()
	take()
	require.EqualValues(t, workers*each, taken[Key{Queue: "a"}].PushMessages)
	require.EqualValues(t, workers*each, taken[Key{Queue: "a"}].PushRequests, "a request counts once for a queue")
	require.EqualValues(t, workers*each, taken[Key{Queue: "b"}].PushMessages)
	require.EqualValues(t, workers*each, r.Totals()["a"].PushMessages)
}

func openPool(t *testing.T) *postgres.Pool {
	t.Helper()
	return enginetest.Pool(t, enginetest.Database(t))
}

// newWriter returns a Writer that uses pool, and its Recorder.
func newWriter(pool *postgres.Pool) (*Writer, *Recorder) {
	counts := NewRecorder(10)
	return NewWriter(pool, counts, Sources{
		Instance: Instance{ID: queue.NewID().String(), Hostname: "host", Port: 6632, PID: 1},
		Parked:   func() map[Key]int64 { return nil },
		Pool:     func() (size, idle, active int64) { return 3, 2, 1 },
	}, zap.NewNop()), counts
}

// A statement with maxRows rows ends within a second. A second write of the same rows changes nothing.
func TestTheStatementIsFastAndMayBeRepeated(t *testing.T) {
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
		w.flush(t.Context(), nil, true)
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

// If a minute has only database errors and no other count, its row of the instance is written. The Reader returns the
// row before the Writer has written it.
func TestAMinuteWithNothingButErrorsIsWritten(t *testing.T) {
	pool := openPool(t)
	w, counts := newWriter(pool)
	counts.DatabaseFailed()
	now := time.Now()
	unwritten, err := NewReader(pool, w, nil).Instances(t.Context(), Range{From: now.Add(-time.Hour), To: now.Add(time.Hour), Bucket: time.Minute}, nil, nil)
	require.NoError(t, err)
	require.NotEmpty(t, unwritten)
	require.True(t, w.collect(nil))
	queues, instances, err := w.encoded()
	require.NoError(t, err)
	require.NoError(t, w.write(t.Context(), queues, instances))
	require.EqualValues(t, 1, enginetest.Value[int64](t, pool, "SELECT sum(db_errors) FROM belfry.history_instance"))
}

package catalog_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// first is the time at which the first message of an hourly queue was stored.
var first = time.Date(2026, 5, 16, 1, 0, 0, 0, time.UTC)

// hourly fills a queue with messages that are one hour apart.
func (r *fixture) hourly(name string, s size) {
	r.t.Helper()
	r.fill(r.queueKey(r.configure(name)), s)
	r.exec(`UPDATE belfry.message m SET created_at = $2::timestamptz + (m.seq - 1) * interval '1 hour'
		FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE p.id = m.partition_id AND q.name = $1`, name, first)
	r.exec(`UPDATE belfry.partition p SET last_push_at = $2::timestamptz + (p.last_seq - 1) * interval '1 hour'
		FROM belfry.queue q WHERE q.id = p.queue_id AND q.name = $1`, name, first)
}

func (r *fixture) cursorsWhere(condition string, args ...any) int64 {
	r.t.Helper()
	return r.number(`SELECT count(*) FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		JOIN belfry.consumer_group g ON g.id = c.group_id WHERE `+condition, args...)
}

// resyncs counts the resyncs that a catalog publishes.
type resyncs struct {
	events.Nop
	mu sync.Mutex
	n  int
}

func (d *resyncs) OnResync(string, events.Origin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
}

func (d *resyncs) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

func TestSeekToEachKindOfPosition(t *testing.T) {
	r := newFixture(t)
	r.hourly("orders", size{partitions: 3, messages: 9, groups: 2})
	after := func(n int, more time.Duration) catalog.Position {
		return catalog.Position{After: first.Add(time.Duration(n-1)*time.Hour + more)}
	}
	for name, c := range map[string]struct {
		to   catalog.Position
		want int64
	}{
		"the end":                      {catalog.Position{End: true}, 9},
		"the beginning":                {catalog.Position{}, 0},
		"after a message":              {after(4, 0), 4},
		"just before a message":        {after(4, -time.Microsecond), 3},
		"between two messages":         {after(4, time.Minute), 4},
		"the first message":            {after(1, 0), 1},
		"a time before the first":      {after(1, -time.Second), 0},
		"the last message":             {after(9, 0), 9},
		"a time in the far future":     {after(9, 100*365*24*time.Hour), 9},
		"a time long before the first": {catalog.Position{After: time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)}, 0},
	} {
		for _, from := range []int64{0, 3, 4, 9} {
			r.exec("UPDATE belfry.cursor SET committed = $1, ready_at = NULL", from)
			moved, err := r.Seek(enginetest.Context(t), "orders", "g1", c.to)
			require.NoError(t, err)
			require.Equal(t, int64(3), moved)
			require.Equal(t, int64(3), r.cursorsWhere("g.name = 'g1' AND c.committed = $1 AND (c.ready_at IS NULL) = ($1 = 9)", c.want),
				"%s, from %d", name, from)
			require.Equal(t, int64(3), r.cursorsWhere("g.name = 'g2' AND c.committed = $1", from), "the cursors of the other group do not move")
		}
	}
}

func TestSeekEndsLeasesAndCounters(t *testing.T) {
	r := newFixture(t)
	r.hourly("orders", size{partitions: 2, messages: 9, groups: 2})
	for _, to := range []catalog.Position{{End: true}, {}, {After: first.Add(time.Hour)}} {
		r.exec(`UPDATE belfry.cursor SET committed = 3, attempts = 2, failures = 2, consumed = 3, lease_id = gen_random_uuid(), lease_end = 5,
			lease_until = clock_timestamp() + interval '1 hour', ready_at = clock_timestamp() + interval '1 hour'`)
		_, err := r.Seek(enginetest.Context(t), "orders", "g1", to)
		require.NoError(t, err)
		require.Equal(t, int64(2), r.cursorsWhere(`g.name = 'g1' AND c.attempts = 0 AND c.failures = 0 AND c.consumed = 3 AND c.lease_id IS NULL
			AND c.lease_until IS NULL AND c.lease_end IS NULL AND (c.ready_at IS NULL OR c.ready_at <= clock_timestamp())`))
		require.Equal(t, int64(2), r.cursorsWhere("g.name = 'g2' AND c.attempts = 2 AND c.lease_id IS NOT NULL"), "the other group keeps its leases")
	}
}

// A seek back delivers dead-lettered messages again. A seek forward keeps them skipped.
func TestSeekAndDeadLetters(t *testing.T) {
	r := newFixture(t)
	r.hourly("orders", size{partitions: 1, messages: 9, groups: 1, deadLetters: 2})
	for _, c := range []struct {
		to   catalog.Position
		want string
	}{
		{catalog.Position{}, "c.skip IS NULL"},
		{catalog.Position{After: first}, "c.skip IS NULL"},
		{catalog.Position{After: first.Add(3 * time.Hour)}, "c.skip IS NULL"}, // the current position
		{catalog.Position{After: first.Add(5 * time.Hour)}, "c.skip = '{[8,9)}'"},
		{catalog.Position{End: true}, "c.skip IS NULL"},
	} {
		r.exec("UPDATE belfry.cursor SET committed = 4, skip = '{[6,6],[8,8]}'")
		_, err := r.Seek(enginetest.Context(t), "orders", "g1", c.to)
		require.NoError(t, err)
		require.Equal(t, int64(1), r.cursorsWhere(c.want), "%+v", c.to)
	}
	require.Equal(t, int64(2), r.number("SELECT count(*) FROM belfry.dead_letter"), "dead letters stay listed")
}

func TestSeekOfUnknownNames(t *testing.T) {
	r := newFixture(t)
	published := &resyncs{}
	r.bus.Subscribe(published)
	r.hourly("orders", size{partitions: 1, messages: 1, groups: 1})
	before := published.count()
	for _, name := range [][2]string{{"unknown", "g1"}, {"orders", "unknown"}} {
		moved, err := r.Seek(enginetest.Context(t), name[0], name[1], catalog.Position{})
		require.NoError(t, err)
		require.Zero(t, moved)
	}
	for _, name := range [][2]string{{"unknown", "p1"}, {"orders", "unknown"}} {
		_, err := r.SeekPartition(enginetest.Context(t), name[0], "g1", name[1], catalog.Position{})
		require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
		require.EqualError(t, err, "Partition not found")
	}
	for _, name := range [][2]string{{"g1", "Default"}, {"unknown", "p1"}} { // the group has no cursor there
		sought, err := r.SeekPartition(enginetest.Context(t), "orders", name[0], name[1], catalog.Position{})
		require.NoError(t, err)
		require.Equal(t, catalog.PartitionSeek{}, sought)
	}
	require.Equal(t, before, published.count(), "no resync is published")
}

func TestSeekOfOnePartition(t *testing.T) {
	r := newFixture(t)
	published := &resyncs{}
	r.bus.Subscribe(published)
	r.hourly("orders", size{partitions: 2, messages: 3, groups: 1})
	for i, c := range []struct {
		to   catalog.Position
		want int64
	}{{catalog.Position{End: true}, 3}, {catalog.Position{After: first}, 1}, {catalog.Position{}, 0}} {
		sought, err := r.SeekPartition(enginetest.Context(t), "orders", "g1", "p1", c.to)
		require.NoError(t, err)
		require.True(t, sought.Moved)
		require.Equal(t, int64(1), r.cursorsWhere("p.name = 'p1' AND c.committed = $1", c.want))
		require.Equal(t, c.want == 0, sought.Place.IsZero())
		require.Equal(t, min(c.want, 1), r.number(`SELECT count(*) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
			WHERE p.name = 'p1' AND m.created_at = $1 AND m.seq = $2`, sought.Place, c.want))
		require.Equal(t, i+1, published.count())
	}
	require.Equal(t, int64(1), r.cursorsWhere("p.name = 'p2' AND c.committed = 0"))
}

func TestSeekBackOnTenThousandPartitions(t *testing.T) {
	r := newFixture(t)
	r.hourly("orders", size{partitions: 10_000, messages: 3, groups: 1})
	r.exec("UPDATE belfry.cursor SET committed = 3, ready_at = NULL")
	published := &resyncs{}
	r.bus.Subscribe(published)
	for _, c := range []struct {
		to   catalog.Position
		want int64
	}{{catalog.Position{After: first}, 1}, {catalog.Position{}, 0}, {catalog.Position{End: true}, 3}} {
		watch := stopwatch.Start(t)
		moved, err := r.Seek(enginetest.Context(t), "orders", "g1", c.to)
		watch.Within(t, 5*time.Second, "a seek of 10,000 cursors")
		require.NoError(t, err)
		require.Equal(t, int64(10_000), moved)
		require.Equal(t, int64(10_000), r.cursorsWhere("c.committed = $1 AND (c.ready_at IS NULL) = ($1 = 3)", c.want))
	}
	require.Equal(t, 6, published.count(), "one resync after the first page and one after the last")
}

// A request that waits for a partition of the last page gets a resync too, even if the group has
// cursors in only a few partitions.
func TestSeekPublishesAResyncForEveryPage(t *testing.T) {
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("orders")), size{partitions: 2500, messages: 1, groups: 1})
	r.exec(`DELETE FROM belfry.cursor WHERE partition_id NOT IN (
		SELECT max(s.id) FROM (SELECT id, (row_number() OVER (ORDER BY id) - 1) / 1000 AS page FROM belfry.partition) AS s GROUP BY s.page)`)
	var published resyncs
	r.bus.Subscribe(&published)
	moved, err := r.Seek(enginetest.Context(t), "orders", "g1", catalog.Position{})
	require.NoError(t, err)
	require.Equal(t, int64(3), moved)
	require.Equal(t, 2, published.count(), "one resync after the first page and one after the last")
}

// A push holds its partition while a seek moves the group to the end. The wake of the push runs
// after the commit of the push.
func TestPushDuringASeekIsDelivered(t *testing.T) {
	r := newFixture(t)
	r.hourly("orders", size{partitions: 1, messages: 1, groups: 1})
	pusher := enginetest.Connect(t, r.dsn)
	enginetest.Exec(t, pusher, "BEGIN; UPDATE belfry.partition SET last_seq = 2, last_push_at = clock_timestamp() WHERE name = 'p1'")
	_, err := r.Seek(enginetest.Context(t), "orders", "g1", catalog.Position{End: true})
	require.NoError(t, err, "Seek does not wait for a push")
	enginetest.Exec(t, pusher, "COMMIT")
	require.Equal(t, int64(1), r.cursorsWhere("c.committed = 1 AND c.ready_at IS NULL"))
}

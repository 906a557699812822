package sweep

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is a sweeper and a store on their own database.
type fixture struct {
	*Sweeper
	t         *testing.T
	dsn       string
	pool      *postgres.Pool
	store     *store.Store
	published *recorder
	reg       *prometheus.Registry
	counted   *history.Recorder
}

// recorder records published events.
type recorder struct {
	events.Nop
	mu      sync.Mutex
	ready   []queue.Ready
	resyncs int
}

func (e *recorder) OnReady(ready []queue.Ready, _ events.Origin) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready = append(e.ready, ready...)
}

func (e *recorder) OnResync(string, events.Origin) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resyncs++
}

func newFixture(t *testing.T, edits ...func(*Config)) *fixture {
	t.Helper()
	dsn := enginetest.Database(t)
	r := &fixture{t: t, dsn: dsn, pool: enginetest.Pool(t, dsn)}
	r.store = enginetest.Store(t, r.pool)
	r.counted = history.NewRecorder(10)
	r.Sweeper, r.published, r.reg = newSweeper(r.pool, r.counted, edits...)
	return r
}

// newSweeper returns a sweeper on a pool, like the sweeper of another instance.
func newSweeper(pool *postgres.Pool, counts Counter, edits ...func(*Config)) (*Sweeper, *recorder, *prometheus.Registry) {
	cfg := DefaultConfig()
	for _, edit := range edits {
		edit(&cfg)
	}
	published, reg := &recorder{}, prometheus.NewRegistry()
	bus := &events.Bus{}
	bus.Subscribe(published)
	s := New(pool, cfg, bus, NewMetrics(reg, counts), zap.NewNop())
	s.pauseFactor = 1 // a test has no other load
	return s, published, reg
}

func small(n int) func(*Config) {
	return func(c *Config) { c.RetentionBatchSize, c.EvictionBatchSize = n, n }
}

func (r *fixture) exec(statement string, args ...any) {
	r.t.Helper()
	enginetest.Exec(r.t, r.pool, statement, args...)
	r.store.OnResync("", events.Peer) // the test publishes no event for its changes
}

// number runs a query that returns one number.
func (r *fixture) number(query string, args ...any) (n int64) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(enginetest.Context(r.t), query, args...).Scan(&n))
	return n
}

// options sets columns of the queue "q".
func (r *fixture) options(columns string) {
	r.t.Helper()
	r.exec("UPDATE belfry.queue SET " + columns + " WHERE name = 'q'")
}

// push stores n messages in a partition. Their transaction ids continue the numbers 1, 2, ...
func (r *fixture) push(partition string, n int) {
	r.t.Helper()
	have := r.number(`SELECT coalesce(max(p.last_seq), 0) FROM belfry.partition p WHERE p.name = $1`, partition)
	items := make([]queue.PushItem, n)
	for i := range items {
		items[i] = queue.PushItem{
			Queue: "q", Partition: partition, TransactionID: fmt.Sprint(have + int64(i) + 1), Payload: []byte(`{}`),
		}
	}
	_, err := r.store.Push(enginetest.Context(r.t), items)
	require.NoError(r.t, err)
}

// age makes the messages of a partition, up to a seq, one hour older.
func (r *fixture) age(partition string, upto int) {
	r.t.Helper()
	r.exec(`UPDATE belfry.message m SET created_at = m.created_at - interval '1 hour'
		FROM belfry.partition p WHERE p.id = m.partition_id AND p.name = $1 AND m.seq <= $2`, partition, upto)
}

func (r *fixture) pop(group string, n int) queue.Delivery {
	r.t.Helper()
	d, err := r.store.Pop(enginetest.Context(r.t), &queue.PopRequest{Queue: "q", Group: group, Batch: n, Partitions: 100})
	require.NoError(r.t, err)
	return d
}

// names returns the transaction ids of a delivery.
func names(d queue.Delivery) []string {
	ids := []string{}
	for _, m := range d.Messages {
		ids = append(ids, m.TransactionID)
	}
	return ids
}

func (r *fixture) ack(d queue.Delivery, status queue.AckStatus, messages ...queue.Message) {
	r.t.Helper()
	items := make([]queue.AckItem, len(messages))
	for i, m := range messages {
		items[i] = queue.AckItem{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: d.Group, LeaseID: d.LeaseID.String(), Status: status,
		}
	}
	results, err := r.store.Ack(enginetest.Context(r.t), items)
	require.NoError(r.t, err)
	for _, result := range results {
		require.True(r.t, result.Success, result.Error)
	}
}

// consume delivers and acknowledges n messages.
func (r *fixture) consume(group string, n int) {
	r.t.Helper()
	d := r.pop(group, n)
	require.Len(r.t, d.Messages, n)
	r.ack(d, queue.AckCompleted, d.Messages...)
}

// sweep runs a job, even if it is not due, and then checks the invariants.
func (r *fixture) sweep(j job) {
	r.t.Helper()
	r.exec("UPDATE belfry.sweep SET next_at = '-infinity', held_until = NULL")
	err := r.runOnce(enginetest.Context(r.t), j)
	require.NoError(r.t, err)
	r.checkInvariants()
}

// checkInvariants requires five invariants.
//
//  1. A partition stores last_seq - trimmed - holes messages.
//  2. It stores no message up to trimmed.
//  3. No unleased cursor is below trimmed.
//  4. ready_at of a cursor is set if, and only if, a message is after the cursor.
//  5. Every dead letter has its message.
func (r *fixture) checkInvariants() {
	r.t.Helper()
	for rule, query := range map[string]string{
		"stored": `SELECT count(*) FROM belfry.partition p WHERE p.last_seq - p.trimmed - p.holes <>
			(SELECT count(*) FROM belfry.message m WHERE m.partition_id = p.id)`,
		"trimmed": `SELECT count(*) FROM belfry.partition p JOIN belfry.message m ON m.partition_id = p.id AND m.seq <= p.trimmed`,
		"cursors": `SELECT count(*) FROM belfry.partition p JOIN belfry.cursor c ON c.partition_id = p.id
			WHERE c.committed < p.trimmed AND c.lease_id IS NULL`,
		"not ready": `SELECT count(*) FROM belfry.partition p JOIN belfry.cursor c ON c.partition_id = p.id
			WHERE c.committed < p.last_seq AND c.ready_at IS NULL`,
		"ready without a message": `SELECT count(*) FROM belfry.partition p JOIN belfry.cursor c ON c.partition_id = p.id
			WHERE c.committed = p.last_seq AND c.ready_at IS NOT NULL`,
		"skip": `SELECT count(*) FROM belfry.cursor c WHERE c.committed >= lower(c.skip)`,
		"dead letters": `SELECT count(*) FROM belfry.dead_letter d WHERE NOT EXISTS
			(SELECT 1 FROM belfry.message m WHERE m.partition_id = d.partition_id AND m.seq = d.seq)`,
	} {
		require.Zero(r.t, r.number(query), rule)
	}
}

// stored returns the seqs in a partition.
func (r *fixture) stored(partition string) []int64 {
	r.t.Helper()
	rows, err := r.pool.Query(enginetest.Context(r.t), `SELECT m.seq FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
		WHERE p.name = $1 ORDER BY m.seq`, partition)
	require.NoError(r.t, err)
	seqs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(r.t, err)
	return seqs
}

// counts are the sweep counters of queue "q".
type counts struct{ retention, completed, evicted, unread, expired, skipped int64 }

func (r *fixture) counts() (n counts) {
	r.t.Helper()
	err := r.pool.QueryRow(enginetest.Context(r.t), `SELECT s.retention, s.completed, s.evicted, s.unread, s.expired, s.skipped FROM belfry.queue_sweep s`).
		Scan(&n.retention, &n.completed, &n.evicted, &n.unread, &n.expired, &n.skipped)
	if postgres.IsNoRows(err) {
		return counts{}
	}
	require.NoError(r.t, err)
	return n
}

// depth returns the number of messages in a partition after the cursor of a group.
func (r *fixture) depth(partition, group string) int64 {
	r.t.Helper()
	return r.number(`SELECT p.last_seq - c.committed FROM belfry.partition p JOIN belfry.cursor c ON c.partition_id = p.id
		JOIN belfry.consumer_group g ON g.id = c.group_id WHERE p.name = $1 AND g.name = $2`, partition, group)
}

// states counts the pending, processing and completed messages of a partition, like pkg/insight/stats.
func (r *fixture) states(partition string) (n [3]int64) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(enginetest.Context(r.t), `SELECT s.pending, s.processing, s.completed FROM belfry.partition p
		CROSS JOIN LATERAL belfry.partition_counts(p.id, p.last_seq, p.trimmed, p.holes) s WHERE p.name = $1`, partition).
		Scan(&n[0], &n[1], &n[2]))
	return n
}

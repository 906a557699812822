package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is a store on its own database.
type bench struct {
	*store.Store
	t    testing.TB
	pool *postgres.Pool
	reg  *prometheus.Registry
}

// newBench returns a store on its own database. It registers the groups before the first push.
func newBench(t testing.TB, groups ...string) *bench {
	t.Helper()
	pool := enginetest.Pool(t, enginetest.Database(t)) // shared machines pause
	b := &bench{t: t, pool: pool, reg: prometheus.NewRegistry()}
	b.Store = newStore(t, pool, b.reg, nil)
	if len(groups) > 0 {
		b.register(groups...)
	}
	return b
}

func newPool(t testing.TB, dsn string, timeout time.Duration) *postgres.Pool {
	return enginetest.Pool(t, dsn, func(c *postgres.Config) { c.RequestTimeout = timeout })
}

func newStore(t testing.TB, pool *postgres.Pool, reg *prometheus.Registry, sealer *seal.Sealer, edits ...func(*batch.Config)) *store.Store {
	t.Helper()
	cfg := store.Config{Defaults: enginetest.AtOnce(), Sealer: sealer, Batch: batch.DefaultConfig()}
	for _, edit := range edits {
		edit(&cfg.Batch)
	}
	s := store.New(pool, cfg, store.NewMetrics(reg), zap.NewNop())
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func (b *bench) push(partition string, transactionIDs ...string) []queue.PushResult {
	b.t.Helper()
	items := make([]queue.PushItem, len(transactionIDs))
	for i, id := range transactionIDs {
		items[i] = item(partition, id)
	}
	results, err := b.Push(b.t.Context(), items)
	require.NoError(b.t, err)
	return results
}

// register creates the queue with partition "p", and registers the groups, before the first push.
func (b *bench) register(groups ...string) {
	b.t.Helper()
	b.exec(sql.Query("engine/store/open_partitions"), []string{"q"}, []string{"p"}, 300, 3, 0, 0, 0, nil)
	for _, group := range groups {
		require.Empty(b.t, b.pop(request(group, 1)).Messages)
	}
}

func item(partition, transactionID string) queue.PushItem {
	return queue.PushItem{Queue: "q", Partition: partition, TransactionID: transactionID, Payload: []byte(`{}`)}
}

func request(group string, batch int, edits ...func(*queue.PopRequest)) *queue.PopRequest {
	req := &queue.PopRequest{Queue: "q", Group: group, Batch: batch, Partitions: 1}
	for _, edit := range edits {
		edit(req)
	}
	return req
}

func withAutoAck(on bool) func(*queue.PopRequest) {
	return func(r *queue.PopRequest) { r.AutoAck = on }
}

// across makes a pop claim up to n partitions.
func across(n int) func(*queue.PopRequest) {
	return func(r *queue.PopRequest) { r.Partitions = n }
}

// from makes a pop claim one partition.
func from(partition string) func(*queue.PopRequest) {
	return func(r *queue.PopRequest) { r.Partition = &partition }
}

// resolve returns the target of a request whose queue exists.
func (b *bench) resolve(req *queue.PopRequest) queue.Target {
	b.t.Helper()
	target, _, ok, err := b.Resolve(b.t.Context(), req)
	require.NoError(b.t, err)
	require.True(b.t, ok)
	return target
}

// claim makes the claim of one request like a round.
func (b *bench) claim(req *queue.PopRequest, target queue.Target) queue.Delivery {
	b.t.Helper()
	deliveries, err := b.Claim(b.t.Context(), []queue.Assignment{{Request: req, Target: target}})
	require.NoError(b.t, err)
	return deliveries[0]
}

// sealing gives the bench a key and sets encryptionEnabled of its queues. It returns the store without the key.
func (b *bench) sealing() (keyless *store.Store) {
	b.t.Helper()
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
	require.NoError(b.t, err)
	keyless, b.Store = b.Store, newStore(b.t, b.pool, prometheus.NewRegistry(), sealer)
	b.option("encryption_enabled = true")
	return keyless
}

func (b *bench) pop(req *queue.PopRequest) queue.Delivery {
	b.t.Helper()
	delivery, err := b.Pop(b.t.Context(), req)
	for errors.Is(err, queue.ErrJoining) { // a pop waits one second for the join, which is too short on a busy machine
		delivery, err = b.Pop(b.t.Context(), req)
	}
	require.NoError(b.t, err)
	return delivery
}

// ack acknowledges messages of a delivery with one status.
func (b *bench) ack(d queue.Delivery, status queue.AckStatus, messages ...queue.Message) []queue.AckResult {
	b.t.Helper()
	results, err := b.Ack(b.t.Context(), acks(d, status, messages...))
	require.NoError(b.t, err)
	return results
}

func acks(d queue.Delivery, status queue.AckStatus, messages ...queue.Message) []queue.AckItem {
	items := make([]queue.AckItem, len(messages))
	for i, m := range messages {
		items[i] = queue.AckItem{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: d.Group, Status: status,
		}
		if !d.LeaseID.IsZero() {
			items[i].LeaseID = d.LeaseID.String()
		}
	}
	return items
}

func transactionIDs(d queue.Delivery) []string {
	ids := make([]string, len(d.Messages))
	for i, m := range d.Messages {
		ids[i] = m.TransactionID
	}
	return ids
}

// retryNow makes all cursors due that wait for a retry.
func (b *bench) retryNow() {
	b.t.Helper()
	b.exec(`UPDATE belfry.redrive SET retry_at = now() WHERE retry_at > now()`)
	b.exec(`UPDATE belfry.cursor SET ready_at = now(), retry_at = now() WHERE retry_at > now()`)
}

// scan reads one row of plain SQL.
func (b *bench) scan(query string, args []any, into ...any) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(context.WithoutCancel(b.t.Context()), query, args...).Scan(into...))
}

// count returns the number that a query selects.
func (b *bench) count(query string, args ...any) (n int) {
	b.t.Helper()
	b.scan(query, args, &n)
	return n
}

// holds returns the boolean that a query selects.
func (b *bench) holds(query string, args ...any) (yes bool) {
	b.t.Helper()
	b.scan(query, args, &yes)
	return yes
}

// epoch returns the epoch of the database.
func (b *bench) epoch() (epoch int64) {
	b.t.Helper()
	b.scan(`SELECT belfry.epoch()`, nil, &epoch)
	return epoch
}

// stranded counts cursors that break I3.
func (b *bench) stranded() (n int) {
	b.t.Helper()
	b.scan(`SELECT count(*) FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		WHERE c.ready_at IS NULL AND c.committed < p.last_seq`, nil, &n)
	return n
}

// deadlocks returns the number of deadlocks in the database.
func (b *bench) deadlocks() (n int) {
	b.t.Helper()
	b.scan(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`, nil, &n)
	return n
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

// completes returns the parameters of ack_apply for an ack without a lease that completes a message.
func (b *bench) completes(partition int64, group string, seq int64) []any {
	b.t.Helper()
	var id [16]byte
	b.scan(`SELECT uid FROM belfry.partition WHERE id = $1`, []any{partition}, &id)
	return []any{
		[]int64{partition}, [][16]byte{id}, []string{group}, []int32{1}, []int32{1}, []int64{seq}, [][16]byte{{}}, []int16{1}, [][]byte{}, []*int64{}, "1000", true, []string{}, "", []*int64{},
	}
}

// awaitLockWait returns once a session of this database waits for a lock.
func awaitLockWait(t testing.TB, b *bench) {
	t.Helper()
	enginetest.Await(t, "a session that waits for a lock", func() bool {
		var n int
		b.scan(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &n)
		return n > 0
	})
}

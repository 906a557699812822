package stats_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
	"github.com/belfry-mq/belfry/pkg/store"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds what must happen soon; a test that reaches it has failed.
const patience = time.Minute

// room is a reader on a database of its own, with the verbs that fill it and a
// connection for what no verb does.
type room struct {
	*stats.Reader
	t       *testing.T
	pool    *postgres.Pool
	store   *store.Store
	catalog *catalog.Catalog
	conn    *pgx.Conn
}

func newRoom(t *testing.T) *room {
	t.Helper()
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.RequestTimeout = pgtest.Database(t), patience
	pool, err := postgres.Open(t.Context(), cfg, "belfry-test", 0)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := store.New(pool, store.Config{Defaults: queue.DefaultDefaults(), Batch: batch.DefaultConfig()},
		store.NewMetrics(prometheus.NewRegistry()), zap.NewNop())
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	conn, err := pgx.Connect(t.Context(), cfg.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &room{Reader: stats.New(pool), t: t, pool: pool, store: s, catalog: catalog.New(pool, &events.Bus{}, zap.NewNop()), conn: conn}
}

func (r *room) exec(statement string, args ...any) {
	r.t.Helper()
	_, err := r.conn.Exec(r.t.Context(), statement, args...)
	require.NoError(r.t, err)
}

// configure configures a queue with the default options, changed.
func (r *room) configure(name string, edit ...func(*catalog.Settings)) {
	r.t.Helper()
	set := catalog.Settings{Queue: name, Options: queue.DefaultDefaults().Options()}
	for _, e := range edit {
		e(&set)
	}
	_, err := r.catalog.Configure(r.t.Context(), set)
	require.NoError(r.t, err)
}

// push stores messages with the given transaction ids.
func (r *room) push(queueName, partition string, ids ...string) {
	r.t.Helper()
	items := make([]queue.PushItem, len(ids))
	for i, id := range ids {
		items[i] = queue.PushItem{Queue: queueName, Partition: partition, TransactionID: id, Payload: []byte(`{}`)}
	}
	_, err := r.store.Push(r.t.Context(), items)
	require.NoError(r.t, err)
}

// pop leases up to n messages of a partition to a group.
func (r *room) pop(queueName, partition, group string, n int) queue.Delivery {
	r.t.Helper()
	d, err := r.store.Pop(r.t.Context(), &queue.PopRequest{
		Queue: queueName, Partition: &partition, Group: group, Batch: n, Partitions: 1,
	})
	require.NoError(r.t, err)
	return d
}

// ack acknowledges the messages of a delivery at the given places; without
// places, all.
func (r *room) ack(d queue.Delivery, status queue.AckStatus, places ...int) {
	r.t.Helper()
	if len(places) == 0 {
		for i := range d.Messages {
			places = append(places, i)
		}
	}
	items := make([]queue.AckItem, len(places))
	for i, place := range places {
		m := d.Messages[place]
		items[i] = queue.AckItem{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: d.Group, LeaseID: d.LeaseID.String(), Status: status,
		}
	}
	results, err := r.store.Ack(r.t.Context(), items)
	require.NoError(r.t, err)
	for _, result := range results {
		require.True(r.t, result.Success, result.Error)
	}
}

// only returns the one queue there is.
func (r *room) only() stats.Queue {
	r.t.Helper()
	queues, err := r.Queues(r.t.Context(), stats.QueueFilter{})
	require.NoError(r.t, err)
	require.Len(r.t, queues, 1)
	return queues[0]
}

// list returns the transaction ids of a list of messages.
func (r *room) list(filter stats.MessageFilter) []string {
	r.t.Helper()
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	list, err := r.Messages(r.t.Context(), filter)
	require.NoError(r.t, err)
	return transactions(list.Messages)
}

func transactions(messages []stats.Message) []string {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.TransactionID
	}
	return ids
}

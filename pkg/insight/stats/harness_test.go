package stats_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is a Reader on a new database, the store and the catalog that fill the
// database, and a connection for direct SQL.
type fixture struct {
	*stats.Reader
	t       *testing.T
	pool    *postgres.Pool
	store   *store.Store
	catalog *catalog.Catalog
	conn    *pgx.Conn
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	pool := enginetest.Pool(t, enginetest.Database(t))
	s := enginetest.Store(t, pool)
	conn := enginetest.Connect(t, pool.Config().ConnString())
	return &fixture{Reader: stats.New(pool), t: t, pool: pool, store: s, catalog: catalog.New(pool, nil, &events.Bus{}, zap.NewNop()), conn: conn}
}

func (r *fixture) exec(statement string, args ...any) {
	r.t.Helper()
	enginetest.Exec(r.t, r.conn, statement, args...)
}

// configure configures a queue. It applies edit to the default options.
func (r *fixture) configure(name string, edit ...func(*catalog.Settings)) {
	r.t.Helper()
	set := catalog.Settings{Queue: name, Options: queue.DefaultDefaults().Options()}
	for _, e := range edit {
		e(&set)
	}
	_, err := r.catalog.Configure(r.t.Context(), set)
	require.NoError(r.t, err)
}

// push stores messages with the given transaction ids.
func (r *fixture) push(queueName, partition string, ids ...string) {
	r.t.Helper()
	items := make([]queue.PushItem, len(ids))
	for i, id := range ids {
		items[i] = queue.PushItem{Queue: queueName, Partition: partition, TransactionID: id, Payload: []byte(`{}`)}
	}
	_, err := r.store.Push(r.t.Context(), items)
	require.NoError(r.t, err)
}

// pop leases up to n messages of a partition to a group.
func (r *fixture) pop(queueName, partition, group string, n int) queue.Delivery {
	r.t.Helper()
	d, err := r.store.Pop(r.t.Context(), &queue.PopRequest{
		Queue: queueName, Partition: &partition, Group: group, Batch: n, Partitions: 1,
	})
	require.NoError(r.t, err)
	return d
}

// ack acknowledges the messages of a delivery at the given indexes. Without indexes it
// acknowledges all messages.
func (r *fixture) ack(d queue.Delivery, status queue.AckStatus, indexes ...int) {
	r.t.Helper()
	if len(indexes) == 0 {
		for i := range d.Messages {
			indexes = append(indexes, i)
		}
	}
	items := make([]queue.AckItem, len(indexes))
	for i, index := range indexes {
		m := d.Messages[index]
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

// only returns the only queue. It requires that there is exactly one.
func (r *fixture) only() stats.Queue {
	r.t.Helper()
	queues, err := r.Queues(r.t.Context(), stats.QueueFilter{})
	require.NoError(r.t, err)
	require.Len(r.t, queues, 1)
	return queues[0]
}

// list returns the transaction ids of a list of messages.
func (r *fixture) list(filter stats.MessageFilter) []string {
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

package inbox

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is a database with one instance.
type fixture struct {
	*instance
	t   *testing.T
	dsn string
}

// instance is a sequencer with its store and its metrics.
type instance struct {
	*Sequencer
	store *store.Store
	reg   *prometheus.Registry
	// stop stops the goroutines that start has started.
	stop func()
	// before is called before each transaction of the sequencer. It may be nil.
	before func(ids []int64)
	// bus has the events of the store, but not of the sequencer. Subscribe before start.
	bus *events.Bus
}

// Sequence implements Appender.
func (i *instance) Sequence(ctx context.Context, conn *pgxpool.Conn, ids []int64, items []queue.PushItem) ([]queue.SequenceResult, error) {
	if i.before != nil {
		i.before(ids)
	}
	return i.store.Sequence(ctx, conn, ids, items)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dsn := enginetest.Database(t)
	return &fixture{t: t, dsn: dsn, instance: newInstance(t, dsn, nil)}
}

func newInstance(t *testing.T, dsn string, sealer *seal.Sealer) *instance {
	t.Helper()
	i := &instance{reg: prometheus.NewRegistry(), stop: func() {}, bus: &events.Bus{}}
	pool := enginetest.Pool(t, dsn, func(c *postgres.Config) { c.PoolSize = 8 })
	i.store = store.New(pool, store.Config{Events: i.bus, Defaults: queue.DefaultDefaults(), Sealer: sealer, Batch: batch.DefaultConfig()},
		store.NewMetrics(prometheus.NewRegistry()), zap.NewNop())
	t.Cleanup(func() { require.NoError(t, i.store.Close(context.Background())) })
	cfg := Config{MaxPayload: 1000, FallbackInterval: time.Hour, PollInterval: time.Hour}
	i.Sequencer = New(Deps{
		Pool: pool, SequencerPool: enginetest.Pool(t, dsn, func(c *postgres.Config) { c.PoolSize = Connections }), Appender: i, Events: &events.Bus{}, Proven: func() bool { return true },
		Metrics: NewMetrics(i.reg), Log: zap.NewNop(),
	}, cfg)
	return i
}

// start runs the instance, and its listener, until the test ends or stop is called.
func (i *instance) start(t *testing.T, dsn string) {
	t.Helper()
	sender, err := listen.NewSender(dsn, queue.NewID(), listen.DefaultConfig(), func() {}, zap.NewNop())
	require.NoError(t, err)
	listener, err := listen.NewListener(dsn, sender, listen.DefaultConfig(), listen.Callbacks{
		OnReady: func(listen.Notification) {}, OnCreated: func() {}, OnLook: func(string) {}, OnResync: func(string) {},
		OnState: func(listen.State) {}, OnInbox: i.OnInbox, OnRevocation: func() {}, OnSetting: func() {}, OnSchedule: func() {},
		OnSQLWaiter: func(queue.SQLWaiter) {}, OnListening: func() {}, OnLive: func(string) {}, OnPeerLeft: func(queue.ID) {},
	}, zap.NewNop())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{sender.Run, listener.Run, i.Run, i.store.Run} {
		all.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	i.stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	t.Cleanup(i.stop)
}

// session is a producer's connection.
type session struct {
	*pgx.Conn
	t *testing.T
}

func (r *fixture) session() session {
	r.t.Helper()
	conn, err := pgx.Connect(enginetest.Context(r.t), r.dsn)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return session{conn, r.t}
}

func (s session) exec(statement string, args ...any) {
	s.t.Helper()
	enginetest.Exec(s.t, s, statement, args...)
}

// fails runs a statement that must fail, and returns the error with its hint.
func (s session) fails(statement string, args ...any) string {
	s.t.Helper()
	_, err := s.Exec(enginetest.Context(s.t), statement, args...)
	require.Error(s.t, err)
	return describe(err)
}

// insert inserts a row with a transaction id for a partition of queue "q".
func (s session) insert(partition, id string) {
	s.t.Helper()
	s.exec(`INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('q', $1, '{}', $2)`, partition, id)
}

func (r *fixture) exec(statement string, args ...any) {
	r.t.Helper()
	enginetest.Exec(r.t, r.Pool, statement, args...)
}

func (r *fixture) number(query string, args ...any) (n int64) {
	r.t.Helper()
	require.NoError(r.t, r.Pool.QueryRow(enginetest.Context(r.t), query, args...).Scan(&n))
	return n
}

func (r *fixture) texts(query string, args ...any) []string {
	r.t.Helper()
	rows, err := r.Pool.Query(enginetest.Context(r.t), query, args...)
	require.NoError(r.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(r.t, err)
	return all
}

// stored returns the transaction ids in a partition of queue "q", in order.
func (r *fixture) stored(partition string) []string {
	r.t.Helper()
	return r.texts(`SELECT m.transaction_id FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
		JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'q' AND p.name = $1 ORDER BY m.seq`, partition)
}

// runStep runs one step of the sequencer, without Run.
func (r *fixture) runStep() {
	r.t.Helper()
	_, err := r.step(enginetest.Context(r.t))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { r.resign(context.Background()) })
}

func (r *fixture) waiting() int64 { return r.number("SELECT count(*) FROM belfry.inbox") }

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

package schedule

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is a database with one instance. No sequencer runs, so the messages stay in the inbox.
type fixture struct {
	*Runner
	*Store
	t    *testing.T
	dsn  string
	pool *postgres.Pool
	// peers are the instances that the runners of the fixture know.
	peers      []queue.ID
	registries map[*Runner]*prometheus.Registry
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dsn: enginetest.Database(t), registries: map[*Runner]*prometheus.Registry{}}
	f.pool = enginetest.Pool(t, f.dsn)
	f.Store = NewStore(f.pool)
	f.Runner = f.runner()
	return f
}

// runner returns one more instance, which comes after all earlier ones.
func (f *fixture) runner() *Runner {
	f.t.Helper()
	id := queue.NewID()
	f.peers = append(f.peers, id)
	reg := prometheus.NewRegistry()
	r := New(Deps{
		Pool: enginetest.Pool(f.t, f.dsn), Events: &events.Bus{}, Instance: id, Peers: func() []queue.ID { return f.peers },
		Proven: func() bool { return true }, Metrics: NewMetrics(reg), Log: zap.NewNop(),
	}, Config{FallbackInterval: time.Hour, PollInterval: time.Hour})
	f.registries[r] = reg
	return r
}

// metric returns a metric of an instance.
func (f *fixture) metric(r *Runner, name string) int64 {
	f.t.Helper()
	return enginetest.Metric(f.t, f.registries[r], name)
}

// run runs an instance until stop is called, or the test ends.
func (f *fixture) run(r *Runner) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = func() {
		cancel()
		err := <-ended
		ended <- err
		require.NoError(f.t, err)
	}
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) exec(statement string, args ...any) {
	f.t.Helper()
	enginetest.Exec(f.t, f.pool, statement, args...)
}

func (f *fixture) texts(query string, args ...any) []string {
	f.t.Helper()
	found, err := postgres.Collect(enginetest.Context(f.t), f.pool, query, pgx.RowTo[string], args...)
	require.NoError(f.t, err)
	return found
}

// ids returns the transaction ids of all messages in the inbox, in their order.
func (f *fixture) ids() []string {
	f.t.Helper()
	return f.texts(`SELECT transaction_id FROM belfry.inbox ORDER BY id`)
}

// mustStep does one step of an instance, as after a notification.
func (f *fixture) mustStep(r *Runner) time.Duration {
	f.t.Helper()
	r.floor = time.Time{}
	next, err := r.step(enginetest.Context(f.t))
	require.NoError(f.t, err)
	return next
}

// travel moves the clock of an instance to an instant. The clock continues from there.
func (f *fixture) travel(r *Runner, to time.Time) {
	f.t.Helper()
	r.clockStep.Store(to.Sub(enginetest.Value[time.Time](f.t, f.pool, `SELECT clock_timestamp()`)).Microseconds())
}

// put creates or replaces a schedule of queue q with the payload {}.
func (f *fixture) put(name string, edit func(*Definition)) {
	f.t.Helper()
	d := Definition{Name: name, Queue: "q", Payload: []byte(`{}`)}
	edit(&d)
	_, err := f.Put(enginetest.Context(f.t), &d)
	require.NoError(f.t, err)
}

// schedule returns a schedule.
func (f *fixture) schedule(name string) *Schedule {
	f.t.Helper()
	found, err := f.Get(enginetest.Context(f.t), name)
	require.NoError(f.t, err)
	return found
}

// hour returns the n-th full hour after now.
func hour(n int) time.Time {
	return time.Now().UTC().Truncate(time.Hour).Add(time.Duration(n) * time.Hour)
}

func hourly(d *Definition) { d.Spec.Every = time.Hour }

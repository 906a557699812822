// Package enginetest opens pools, connections and stores for tests of the engine and of the packages that read its tables.
// They all close at the end of their test.
package enginetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// Patience is the longest time for one step of a test. The limit is high because a test machine can be slow.
const Patience = time.Minute

// lookInterval is the time between two checks of the condition in Await.
const lookInterval = 5 * time.Millisecond

// Context returns a context that ends after Patience, or with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// parallel contains the tests that Database has already marked parallel.
var parallel sync.Map

// Database creates a database for a test and marks the test parallel. A test may create several databases.
func Database(t testing.TB) (dsn string) {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		if _, already := parallel.LoadOrStore(t, true); !already {
			t.Parallel()
		}
	}
	return pgtest.Database(t)
}

// Pool opens a pool on a database. A statement may take up to Patience.
func Pool(t testing.TB, dsn string, edits ...func(*postgres.Config)) *postgres.Pool {
	t.Helper()
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.RequestTimeout = setting.Secret(dsn), Patience
	for _, edit := range edits {
		edit(&cfg)
	}
	pool, err := postgres.Open(t.Context(), cfg, "belfry-test", 0)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// Connect opens a connection to a database.
func Connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(Context(t), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // fails if the test ended the session
	return conn
}

// Store returns a store whose queues have no pause after a failure.
func Store(t testing.TB, pool *postgres.Pool, edits ...func(*store.Config)) *store.Store {
	t.Helper()
	cfg := store.Config{Defaults: AtOnce(), Batch: batch.DefaultConfig()}
	for _, edit := range edits {
		edit(&cfg)
	}
	s := store.New(pool, cfg, store.NewMetrics(prometheus.NewRegistry()), zap.NewNop())
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

// AtOnce returns the default settings, but without a pause after a failure and with 3 retries.
func AtOnce() queue.Defaults {
	d := queue.DefaultDefaults()
	d.RetryLimit, d.RetryDelay = 3, 0
	return d
}

// Exec runs a statement on a pool, a connection or in a transaction. The statement must succeed.
func Exec(t testing.TB, on interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
}, statement string, args ...any) {
	t.Helper()
	_, err := on.Exec(Context(t), statement, args...)
	require.NoError(t, err, statement)
}

// Value returns the one value that a query selects.
func Value[T any](t testing.TB, on interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}, query string, args ...any) (value T) {
	t.Helper()
	require.NoError(t, on.QueryRow(Context(t), query, args...).Scan(&value))
	return value
}

// Await checks the condition every 5 ms until it holds. It fails the test after Patience.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for ctx := Context(t); !holds(); {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			require.FailNow(t, "this did not happen in time: "+what)
		}
	}
}

// Metric sums the series of a metric: the values of a counter or gauge, and the number of observations of a histogram. It
// counts only series that have all of labels as label values. It fails if the registry has no such metric.
func Metric(t testing.TB, reg prometheus.Gatherer, name string, labels ...string) (sum int64) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	known := false
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		known = true
		for _, m := range family.GetMetric() {
			var values []string
			for _, label := range m.GetLabel() {
				values = append(values, label.GetValue())
			}
			if !slices.ContainsFunc(labels, func(wanted string) bool { return !slices.Contains(values, wanted) }) {
				sum += int64(m.GetCounter().GetValue()+m.GetGauge().GetValue()) + int64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	require.True(t, known, "there is no metric %s", name)
	return sum
}

// Plan is a node of EXPLAIN (FORMAT JSON).
type Plan struct {
	Type     string `json:"Node Type"`
	Index    string `json:"Index Name"`
	Relation string `json:"Relation Name"`
	Cond     string `json:"Index Cond"`
	Hit      int    `json:"Shared Hit Blocks"`
	Read     int    `json:"Shared Read Blocks"`
	Plans    []Plan `json:"Plans"`
}

// Walk visits the node and all nodes below it.
func (p *Plan) Walk(visit func(*Plan)) {
	visit(p)
	for i := range p.Plans {
		p.Plans[i].Walk(visit)
	}
}

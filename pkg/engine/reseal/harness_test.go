package reseal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/reseal"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The keys of the tests.
var (
	oldKey, newKey, lostKey = "old:" + strings.Repeat("a", 64), "new:" + strings.Repeat("b", 64), "lost:" + strings.Repeat("c", 64)
	single                  = strings.Repeat("d", 64)
	all                     = seal.Config{Keys: setting.Secret(newKey + "," + oldKey), Key: setting.Secret(single)}
)

// fixture is a database with the queue "q", which has encryptionEnabled.
type fixture struct {
	t    *testing.T
	dsn  string
	conn *pgx.Conn
	pool *postgres.Pool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dsn := enginetest.Database(t)
	f := &fixture{t: t, dsn: dsn, pool: enginetest.Pool(t, dsn), conn: enginetest.Connect(t, dsn)}
	f.exec(`INSERT INTO belfry.queue (name, lease_time, retry_limit, encryption_enabled) VALUES ('q', 300, 3, true)`)
	return f
}

func sealer(t *testing.T, cfg seal.Config) *seal.Sealer {
	t.Helper()
	s, err := seal.New(cfg)
	require.NoError(t, err)
	return s
}

// store returns a store of an instance with these keys.
func (f *fixture) store(cfg seal.Config) *store.Store {
	f.t.Helper()
	s := enginetest.Store(f.t, f.pool, func(c *store.Config) { c.Defaults, c.Sealer = queue.DefaultDefaults(), sealer(f.t, cfg) })
	return s
}

// push pushes messages to a partition of "q" with the keys. The payload names the transaction id.
func (f *fixture) push(cfg seal.Config, partition string, transactionIDs ...string) {
	f.t.Helper()
	items := make([]queue.PushItem, len(transactionIDs))
	for i, id := range transactionIDs {
		items[i] = queue.PushItem{Queue: "q", Partition: partition, TransactionID: id, Payload: payloadOf(id)}
	}
	_, err := f.store(cfg).Push(f.t.Context(), items)
	require.NoError(f.t, err)
}

// payloadOf returns JSON whose exact form is lost if it is parsed and encoded again.
func payloadOf(transactionID string) []byte {
	return fmt.Appendf(nil, `{"b": 1.0, "a":"é %s"}`, transactionID)
}

// numbered returns n transaction ids.
func numbered(name string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(name, i)
	}
	return ids
}

func (f *fixture) exec(statement string, args ...any) {
	f.t.Helper()
	_, err := f.conn.Exec(context.WithoutCancel(f.t.Context()), statement, args...)
	require.NoError(f.t, err, statement)
}

// text returns the only value of a query.
func (f *fixture) text(query string) (text string) {
	f.t.Helper()
	require.NoError(f.t, f.conn.QueryRow(f.t.Context(), query).Scan(&text), query)
	return text
}

// run reseals "q" over a new connection.
func (f *fixture) run(ctx context.Context, cfg seal.Config, opts reseal.Options) (reseal.Report, error) {
	f.t.Helper()
	client, err := reseal.Open(f.t.Context(), f.dsn, sealer(f.t, cfg))
	require.NoError(f.t, err)
	report, err := client.Run(ctx, "q", opts)
	_ = client.Close(context.Background()) // a test may have ended the connection
	return report, err
}

// done calls run and requires that it succeeds.
func (f *fixture) done(cfg seal.Config, opts reseal.Options) reseal.Report {
	f.t.Helper()
	report, err := f.run(f.t.Context(), cfg, opts)
	require.NoError(f.t, err)
	return report
}

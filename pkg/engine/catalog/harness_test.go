package catalog_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is a catalog on its own database, and a connection to inspect the tables.
type fixture struct {
	*catalog.Catalog
	bus  *events.Bus
	t    *testing.T
	dsn  string
	pool *postgres.Pool
	conn *pgx.Conn
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dsn := enginetest.Database(t)
	pool := enginetest.Pool(t, dsn)
	bus := &events.Bus{}
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
	require.NoError(t, err)
	return &fixture{Catalog: catalog.New(pool, sealer, bus, zap.NewNop()), bus: bus, t: t, dsn: dsn, pool: pool, conn: enginetest.Connect(t, dsn)}
}

func (r *fixture) exec(statement string, args ...any) {
	r.t.Helper()
	enginetest.Exec(r.t, r.conn, statement, args...)
}

// number runs a query that returns one number.
func (r *fixture) number(query string, args ...any) int64 {
	r.t.Helper()
	var n int64
	require.NoError(r.t, r.conn.QueryRow(enginetest.Context(r.t), query, args...).Scan(&n))
	return n
}

// settings returns the default settings of a queue after edit changed the options.
func settings(name string, edit ...func(*queue.Options)) catalog.Settings {
	set := catalog.Settings{Queue: name, Options: queue.DefaultDefaults().Options()}
	for _, e := range edit {
		e(&set.Options)
	}
	return set
}

// configure configures a queue with the default options after edit changed them.
func (r *fixture) configure(name string, edit ...func(*queue.Options)) catalog.Configured {
	r.t.Helper()
	made, err := r.Configure(enginetest.Context(r.t), settings(name, edit...))
	require.NoError(r.t, err)
	return made
}

// inBackground calls a verb. Its error arrives on the channel.
func inBackground[T any](verb func() (T, error)) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := verb()
		done <- err
	}()
	return done
}

// deleted fills a queue and deletes it. It returns the keys of the rows that the purge must delete.
func (r *fixture) deleted(name string, s size) holdings {
	r.t.Helper()
	key := r.queueKey(r.configure(name))
	r.fill(key, s)
	h := r.holdings(key)
	existed, err := r.Delete(enginetest.Context(r.t), name)
	require.NoError(r.t, err)
	require.True(r.t, existed)
	return h
}

func (r *fixture) queueKey(made catalog.Configured) int64 {
	r.t.Helper()
	return r.number("SELECT id FROM belfry.queue WHERE uid = $1", [16]byte(made.QueueID))
}

// size is the number of rows that fill creates.
type size struct{ partitions, messages, groups, deadLetters int }

// fill creates partitions p1, p2, ... in a queue. Each partition gets messages, a cursor of every
// group, and dead letters of every group.
func (r *fixture) fill(key int64, s size) {
	r.t.Helper()
	r.exec(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
		SELECT $1, 'p' || i, $3, clock_timestamp() FROM generate_series(1, $2::int) i`, key, s.partitions, s.messages)
	r.exec(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, s, p.last_push_at, gen_random_uuid(), 't' || s, '{"a": 1}'
		  FROM belfry.partition p, generate_series(1, p.last_seq) s WHERE p.queue_id = $1`, key)
	r.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue)
		SELECT $1, 'g' || i, true FROM generate_series(1, $2::int) i`, key, s.groups)
	r.exec(`INSERT INTO belfry.cursor (partition_id, group_id, ready_at)
		SELECT p.id, g.id, CASE WHEN p.last_seq > 0 THEN clock_timestamp() END
		  FROM belfry.partition p JOIN belfry.consumer_group g USING (queue_id) WHERE queue_id = $1 AND p.name <> 'Default'`, key)
	r.exec(`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts)
		SELECT c.partition_id, s, c.group_id, 3
		  FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id, generate_series(1, $2::int) s
		 WHERE p.queue_id = $1`, key, s.deadLetters)
	r.exec("ANALYZE belfry.partition, belfry.message, belfry.cursor, belfry.dead_letter")
}

// rows is the number of rows of a queue in each table.
type rows struct{ queues, partitions, messages, groups, cursors, deadLetters int64 }

// holdings keeps the keys of a queue, so that its rows can be counted after the queue row is
// deleted.
type holdings struct {
	queue      int64
	partitions []int64
}

func (r *fixture) holdings(key int64) holdings {
	r.t.Helper()
	found, err := r.conn.Query(enginetest.Context(r.t), "SELECT id FROM belfry.partition WHERE queue_id = $1", key)
	require.NoError(r.t, err)
	partitions, err := pgx.CollectRows(found, pgx.RowTo[int64])
	require.NoError(r.t, err)
	return holdings{key, partitions}
}

func (r *fixture) count(h holdings) rows {
	r.t.Helper()
	var n rows
	require.NoError(r.t, r.conn.QueryRow(enginetest.Context(r.t), `SELECT
		(SELECT count(*) FROM belfry.queue WHERE id = $1),
		(SELECT count(*) FROM belfry.partition WHERE queue_id = $1),
		(SELECT count(*) FROM belfry.message WHERE partition_id = ANY ($2)),
		(SELECT count(*) FROM belfry.consumer_group WHERE queue_id = $1),
		(SELECT count(*) FROM belfry.cursor WHERE partition_id = ANY ($2)),
		(SELECT count(*) FROM belfry.dead_letter WHERE partition_id = ANY ($2))`, h.queue, h.partitions).
		Scan(&n.queues, &n.partitions, &n.messages, &n.groups, &n.cursors, &n.deadLetters))
	return n
}

// lockWaiters reports whether a session of this database waits for a lock.
func (r *fixture) lockWaiters() bool {
	r.t.Helper()
	return r.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
}

// run starts Run. The returned function stops it and returns its error.
func run(t *testing.T, c *catalog.Catalog) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan error, 1)
	go func() { out <- c.Run(ctx) }()
	return func() error {
		cancel()
		return <-out
	}
}

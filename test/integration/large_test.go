package integration_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/dashboard/pages"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// largePage is a page of the dashboard, with its limit for the large database.
type largePage struct {
	// target is the path below /ui/ with its query. The text {message} stands for the query of a stored message.
	target string
	// blocks limits the 8 kB blocks that the statements of the page may touch. Reading a row through an index costs at
	// least one block, so this also limits the rows. The limit does not depend on the size of the database.
	blocks int64
}

// largePages has each page at least once. The large database has about 10,300 queues, 110,000 partitions, 210,000 cursors,
// 1,000,000 messages, 50,000 dead letters and 100,000 schedules. It has about 100,000 blocks.
var largePages = []largePage{
	{"", 25000},
	{"?show=more", 40000},
	{"queues", 5000},
	{"queues?name=large", 5000},
	{"queues?name=0999", 5000},
	{"queues?namespace=n7&task=t3", 5000},
	{"queues?sort=pending", 5000},
	{"queues?sort=failed", 5000},
	{"namespaces", 500},
	{"tasks?sort=lag", 500},
	{"partitions?q=large&name=77777", 5000},
	{"groups", 500},
	{"groups?sort=dead&queue=large&name=b", 500},
	{"history", 500},
	{"queue?q=large", 9000},
	{"queue?q=large&by=failures&g=billing", 12000},
	{"queue?q=large&order=name&from=p5", 15000},
	{"queue?q=large&p=p77777&groups=audit", 9000},
	{"options?q=large", 100},
	{"schedules", 3000},
	{"schedules?q=large", 3000},
	// Reason for the limit of this page: a search examines the names of all schedules.
	{"schedules?name=99999", 20000},
	{"schedule?name=s99999", 500},
	{"schedule-edit?name=s99999", 100},
	{"group?q=large&g=billing", 15000},
	{"group?q=large&g=audit", 1000},
	{"group?q=large&g=billing&p=p77777&seek=beginning", 36000},
	{"group?q=large&g=billing&seek=end", 36000},
	{"group?q=large&g=billing&seek=time&at=2000-01-01", 60000},
	{"group?q=large&g=billing&seek=end&in=p77777", 15000},
	{"group?q=large&g=billing&list=due", 18000},
	{"group?q=large&g=billing&list=leased", 18000},
	{"group?q=large&g=billing&list=resting", 18000},
	{"group?q=large&g=billing&list=name&from=p5", 18000},
	{"messages", 40000},
	{"messages?q=large", 40000},
	{"messages?q=large&status=completed", 60000},
	{"messages?q=large&p=p77777&since=all", 1000},
	{"messages?q=large&p=p77777&t=nothing", 1000},
	{"dead", 3000},
	{"dead?q=large&g=billing", 3000},
	{"jobs", 500},
	{"dispatcher", 500},
	{"message?{message}", 5000},
	// Reason for the limit of this page: the doctor examines at most 10,000 groups.
	{"system", 150000},
	{"traces", 5000},
	{"traces?name=order", 3000},
	{"producers", 500},
	{"streams", 500},
	{"maintenance", 500},
	{"audit", 500},
	// Reason for the limit of this page: it counts what the undo of a seek of 100,000 cursors does. That is the largest seek that can be undone.
	{"undo?id=" + nobody, 900000},
	{"access", 500},
}

// unboundedPages are pages that may be missing in largePages.
var unboundedPages = []string{
	"dead",
	"queue", "options", "group",
}

const (
	// allRows is how many rows of tables and entries of indexes all pages together may read, without the totals.
	allRows = 600_000
	// The totals of all queues and groups (pkg/insight/totals) are counted in pages of 20,000 partitions. totalsRows and totalsBlocks
	// are what one of these may read.
	totalsRows, totalsBlocks = 160_000, 260_000
)

// largeDatabase fills the database in a few seconds.
//
//   - The queue "large" has 100,000 partitions with 9 messages each.
//   - Its group "billing" has unread messages in all partitions, 1,000 live leases and 50,000 dead letters.
//   - Its group "audit" has finished all messages.
//   - 10,000 queues have one partition with 10 messages, and a group "g" that has unread messages in half
//     of the queues.
//   - 300 queues are empty.
//   - 100,000 schedules have a last message in the queue "large", which their group "billing" has not finished.
var largeDatabase = []string{
	`ALTER TABLE belfry.message DROP CONSTRAINT message_pkey, DROP CONSTRAINT message_partition_id_transaction_id_key`,
	`INSERT INTO belfry.queue (name, namespace, task) SELECT 'small.' || lpad(i::text, 5, '0'), 'n' || i % 250, 't' || i % 7 FROM generate_series(1, 10000) i`,
	`INSERT INTO belfry.queue (name, namespace, task) SELECT 'empty.' || i, 'empty', '' FROM generate_series(1, 300) i`,
	`INSERT INTO belfry.queue (name, namespace, task) VALUES ('large', 'large', '')`,
	`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
		SELECT q.id, 'p' || lpad(i::text, 5, '0'), 9, now() - i * interval '10 ms' FROM belfry.queue q, generate_series(0, 99999) i WHERE q.name = 'large'`,
	`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at) SELECT q.id, 'Default', 10, now() - q.id * interval '10 ms' FROM belfry.queue q WHERE q.name LIKE 'small.%'`,
	`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, i, p.last_push_at - (p.last_seq - i) * interval '1 s', gen_random_uuid(), 'm' || i, '{"total": 12}' FROM belfry.partition p, generate_series(1, p.last_seq) i`,
	`ALTER TABLE belfry.message ADD CONSTRAINT message_pkey PRIMARY KEY (partition_id, seq), ADD CONSTRAINT message_partition_id_transaction_id_key UNIQUE (partition_id, transaction_id)`,
	`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT id, unnest(CASE WHEN name = 'large' THEN '{audit,billing}' ELSE '{g}'::text[] END), true FROM belfry.queue`,
	`INSERT INTO belfry.cursor (partition_id, group_id, committed, consumed, ready_at, attempts)
		SELECT p.id, g.id, s.committed, s.committed, CASE WHEN s.committed < p.last_seq THEN p.last_push_at END, CASE WHEN p.id % 50 = 0 THEN 4 ELSE 0 END
		  FROM belfry.partition p JOIN belfry.consumer_group g USING (queue_id)
		 CROSS JOIN LATERAL (SELECT CASE WHEN g.name = 'billing' OR g.name = 'g' AND p.id % 2 = 0 THEN 3 ELSE p.last_seq END AS committed) s`,
	`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, failed_at, error)
		SELECT p.id, 2, g.id, 4, now() - p.id * interval '1 ms', 'the customer ' || p.id % 1000 || ' is unknown'
		  FROM belfry.partition p JOIN belfry.consumer_group g USING (queue_id) WHERE g.name = 'billing' AND p.id % 2 = 0`,
	`UPDATE belfry.cursor c SET lease_id = gen_random_uuid(), lease_until = now() + interval '1 hour', lease_end = 6, ready_at = now() + interval '1 hour', attempts = 1
		  FROM belfry.consumer_group g WHERE g.id = c.group_id AND g.name = 'billing' AND c.partition_id % 100 = 0`,
	`INSERT INTO belfry.trace (id, partition_id, seq, group_name, event_type, worker, names, data)
		SELECT gen_random_uuid(), p.id, 1, 'billing', 'billed', 'w', ARRAY['order', 'order-' || i], '{}' FROM generate_series(1, 20000) i
		  JOIN belfry.partition p ON p.name = 'p' || lpad(i::text, 5, '0')`,
	`INSERT INTO belfry.audit (id, address, request_id, action, queue, consumer_group, parameters, counts, result)
		VALUES ('` + nobody + `', 'a', 'r', 'group.seek', 'large', 'billing', '{}', '{"cursors": 100000}', 'ok')`,
	`INSERT INTO belfry.audit_undo (audit_id, kind, queue_id, group_id, moved)
		SELECT '` + nobody + `', 'places', g.queue_id, g.id, 100000 FROM belfry.consumer_group g WHERE g.name = 'billing'`,
	`INSERT INTO belfry.audit_places SELECT u.audit_id, min(c.partition_id), array_agg(c.partition_id ORDER BY c.partition_id), array_agg(0), array_agg(3)
		FROM belfry.audit_undo u JOIN (SELECT *, row_number() OVER (PARTITION BY group_id ORDER BY partition_id) AS nth FROM belfry.cursor) c USING (group_id)
		GROUP BY u.audit_id, c.nth / 1000`,
	`INSERT INTO belfry.schedule (name, queue, partition, at, overlap_group, payload, handled_to, next_at, due_at, last_at, last_transaction_id, scheduled_by)
		SELECT 's' || lpad(i::text, 5, '0'), 'large', 'p' || lpad(i::text, 5, '0'), '2090-01-01', 'billing', '{}', now(), '2090-01-01', '2090-01-01', now(), 'm9', current_user::regrole
		  FROM generate_series(0, 99999) i`,
	`INSERT INTO belfry.trace_name (name, created_at, trace_id) SELECT unnest(t.names), t.created_at, t.id FROM belfry.trace t`,
	`ANALYZE`,
}

// largeCluster starts a Postgres with the large database and pg_stat_statements. It returns the URLs of that database and
// of the database postgres.
func largeCluster(t *testing.T) (dsn, admin string) {
	t.Helper()
	cluster := pgtest.OwnCluster(t, "shared_preload_libraries")
	run := func(dsn string, statements ...string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		for _, statement := range statements {
			_, err := conn.Exec(t.Context(), statement)
			require.NoError(t, err, statement)
		}
	}
	admin, dsn = cluster.URL("postgres"), cluster.URL("large")
	run(admin, "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'", "ALTER SYSTEM SET max_wal_size = '4GB'", "ALTER SYSTEM SET autovacuum = off")
	require.NoError(t, cluster.Kill())
	require.NoError(t, cluster.Restart(t.Context()))
	require.NoError(t, cluster.CreateDatabase(t.Context(), "large"))
	require.NoError(t, migrate.New(migrate.Config{URL: dsn, LockTimeout: patience}, zap.NewNop()).Up(t.Context()))
	run(admin, "CREATE EXTENSION pg_stat_statements")
	began := time.Now()
	run(dsn, append([]string{"SET synchronous_commit = off", "SET maintenance_work_mem = '512MB'"}, largeDatabase...)...)
	t.Logf("the database was filled in %s", time.Since(began))
	return dsn, admin
}

// statements counts the work of all statements in the large database. Its connection uses another database.
type statements struct {
	t    *testing.T
	conn *pgx.Conn
	// totals counts the statements that counted the totals, before the last reset.
	totals int64
}

// blocks returns the number of calls and of touched blocks since the last reset, without those of the totals.
func (s *statements) blocks() (calls, blocks int64) {
	s.t.Helper()
	require.NoError(s.t, s.conn.QueryRow(s.t.Context(), `SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint
		FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'large') AND query NOT LIKE '-- Counts the messages of a page of partitions%'`).
		Scan(&calls, &blocks))
	return calls, blocks
}

// countTotals adds what counted the totals since the last reset.
func (s *statements) countTotals() {
	s.t.Helper()
	var calls, most int64
	require.NoError(s.t, s.conn.QueryRow(s.t.Context(), `SELECT coalesce(sum(calls), 0)::bigint, coalesce(max((shared_blks_hit + shared_blks_read) / calls), 0)::bigint
		FROM pg_stat_statements WHERE query LIKE '-- Counts the messages of a page of partitions%'`).Scan(&calls, &most))
	s.totals += calls
	require.LessOrEqual(s.t, most, int64(totalsBlocks))
}

// quiet waits until no statement has run for some time, and begins to count.
func (s *statements) quiet(still time.Duration) {
	s.t.Helper()
	before, at := int64(-1), time.Now()
	until(s.t, "the database is idle", func() bool {
		calls, _ := s.blocks()
		if calls != before {
			before, at = calls, time.Now()
		}
		var active bool
		require.NoError(s.t, s.conn.QueryRow(s.t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'large' AND state = 'active')`).Scan(&active))
		return !active && time.Since(at) > still
	})
	s.countTotals()
	_, err := s.conn.Exec(s.t.Context(), "SELECT pg_stat_statements_reset()")
	require.NoError(s.t, err)
}

// rows returns how many rows of tables and entries of indexes the ended sessions of a database have read.
func (s *statements) rows(dsn string) (rows int64) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), dsn)
	require.NoError(s.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) }()
	before, at := int64(-1), time.Now()
	until(s.t, "the ended sessions have reported their reads", func() bool {
		require.NoError(s.t, conn.QueryRow(s.t.Context(), `SELECT ((SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes))::bigint
			FROM pg_stat_clear_snapshot()`).Scan(&rows))
		if rows != before {
			before, at = rows, time.Now()
		}
		return time.Since(at) > 500*time.Millisecond
	})
	return rows
}

// most describes the statements that touched the most blocks.
func (s *statements) most() (text string) {
	s.t.Helper()
	require.NoError(s.t, s.conn.QueryRow(s.t.Context(), `SELECT string_agg(line, E'\n') FROM (
		SELECT format('%s blocks in %s calls: %s', shared_blks_hit + shared_blks_read, calls, left(query, 120)) AS line
		  FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'large')
		 ORDER BY shared_blks_hit + shared_blks_read DESC LIMIT 5) s`).Scan(&text))
	return text
}

// Each page of the dashboard must touch a limited number of blocks and must have less than 300 kB, even in the large
// database.
func TestThePagesOfALargeDatabaseAreBounded(t *testing.T) {
	t.Parallel()
	dsn, admin := largeCluster(t)
	conn, err := pgx.Connect(t.Context(), admin)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	counted := &statements{t: t, conn: conn}
	run := func() *server {
		s := startOn(t, dsn, func(cfg *config.Config) {
			cfg.Sweep.RetentionInterval, cfg.Sweep.EvictionInterval, cfg.Sweep.PartitionCleanupDays = time.Hour, time.Hour, 0
		})
		counted.quiet(2 * time.Second) // at its start, the server examines all cursors in pages
		return s
	}
	// A session reports the rows that it read when it ends. The first server shows how many rows a start reads.
	filled := counted.rows(dsn)
	require.NoError(t, run().stop(t))
	started := counted.rows(dsn) - filled
	s := run()
	var partition string
	s.scan(t, `SELECT p.uid::text FROM belfry.partition p WHERE p.name = 'p77777'`, nil, &partition)
	message := url.Values{"partition": {partition}, "t": {"m2"}}.Encode()

	seen := map[string]bool{}
	for i, page := range largePages {
		// The push changes data, so that the server does not reuse an answer that it read for the previous page.
		pushed, err := s.send(t.Context(), pushCall(item{Queue: "changed", TransactionID: fmt.Sprint(i)}))
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, pushed.Status)
		counted.quiet(100 * time.Millisecond)
		path, _, _ := strings.Cut(page.target, "?")
		seen[path] = true
		body := readPage(t, s.base+"/ui/"+strings.Replace(page.target, "{message}", message, 1))
		calls, blocks := counted.blocks()
		t.Logf("/ui/%s: %d bytes, %d statements, %d blocks", page.target, len(body), calls, blocks)
		if len(body) >= 300_000 {
			t.Errorf("/ui/%s has %d bytes", page.target, len(body))
		}
		if blocks > page.blocks {
			t.Errorf("/ui/%s touched %d blocks: the limit is %d\n%s", page.target, blocks, page.blocks, counted.most())
		}
	}
	counted.quiet(100 * time.Millisecond)
	require.NoError(t, s.stop(t))
	rows := counted.rows(dsn) - filled - 2*started
	t.Logf("a start read %d rows, and all pages together %d, with %d statements for the totals", started, rows, counted.totals)
	require.LessOrEqual(t, rows, allRows+totalsRows*counted.totals, "rows and index entries that all pages together read")
	for _, page := range pages.List() {
		require.True(t, seen[page.Path] || slices.Contains(unboundedPages, page.Path), "the page %q is missing in largePages", page.Path)
	}
}

// readPage returns the body of a page of the dashboard.
func readPage(t *testing.T, target string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", target, body)
	return string(body)
}

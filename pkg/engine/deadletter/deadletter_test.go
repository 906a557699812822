package deadletter_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is Letters on its own database. It records the ready events.
type fixture struct {
	*deadletter.Letters
	t         *testing.T
	pool      *postgres.Pool
	published []queue.Ready
	events.Nop
}

// OnReady records a ready event.
func (r *fixture) OnReady(ready []queue.Ready, _ events.Origin) {
	r.published = append(r.published, ready...)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	pool := enginetest.Pool(t, enginetest.Database(t))
	bus := &events.Bus{}
	r := &fixture{Letters: deadletter.New(pool, nil, bus, zap.NewNop()), t: t, pool: pool}
	bus.Subscribe(r)
	return r
}

// fill creates queue q with n partitions. Each has one message, which is a dead letter of group g.
func (r *fixture) fill(n int) {
	r.t.Helper()
	for _, statement := range []string{
		`INSERT INTO belfry.queue (name) VALUES ('q')`,
		`INSERT INTO belfry.partition (queue_id, name, last_seq) SELECT q.id, 'p' || i, 1 FROM belfry.queue q, generate_series(1, $1::int) i`,
		`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		 SELECT p.id, 1, now(), gen_random_uuid(), p.name, '{}' FROM belfry.partition p`,
		`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'g', true FROM belfry.queue q`,
		`INSERT INTO belfry.cursor (partition_id, group_id, committed) SELECT p.id, g.id, 1 FROM belfry.partition p, belfry.consumer_group g`,
		`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error) SELECT c.partition_id, 1, c.group_id, 3, 'no' FROM belfry.cursor c`,
	} {
		var args []any
		if strings.Contains(statement, "$1") {
			args = append(args, n)
		}
		enginetest.Exec(r.t, r.pool, statement, args...)
	}
}

func named(queueName, group string) deadletter.Filter {
	return deadletter.Filter{Queue: &queueName, Group: &group}
}

func TestRedriveIsBounded(t *testing.T) {
	r := newFixture(t)
	r.fill(5)
	r.Bound(2, 0)
	done, err := r.Redrive(t.Context(), named("q", "g"), 0, false)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Matched: 5, Taken: 2, Remaining: 3}, counts(done), "one page is taken, and three dead letters remain")
	require.Len(t, r.published, 2, "a ready event is published for each cursor")
	r.Bound(2, time.Minute)
	done, err = r.Redrive(t.Context(), named("q", "g"), 0, false)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Matched: 3, Taken: 3}, counts(done))
	require.Len(t, r.published, 5)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	enginetest.Exec(t, r.pool, `INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts) SELECT c.partition_id, 1, c.group_id, 3 FROM belfry.cursor c`)
	done, err = r.Purge(gone, named("q", "g"), false)
	require.NoError(t, err)
	require.Zero(t, done.Taken, "a call whose context has ended takes nothing")
}

// A transaction that creates a dead letter may begin before a redrive, and commit after the redrive
// has counted the dead letters. The redrive leaves this dead letter out.
func TestRedriveTakesNoMoreThanItMatched(t *testing.T) {
	r := newFixture(t)
	r.fill(3)
	r.Bound(1, time.Minute)
	for _, statement := range []string{
		`DELETE FROM belfry.dead_letter WHERE id = (SELECT max(id) FROM belfry.dead_letter)`,
		`CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, failed_at)
			SELECT c.partition_id, 1, c.group_id, 3, OLD.failed_at + interval '1 microsecond'
			  FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name = 'p3';
			RETURN NULL; END $$`,
		`CREATE TRIGGER late AFTER DELETE ON belfry.dead_letter FOR EACH ROW
			WHEN (OLD.partition_id = 1) EXECUTE FUNCTION late()`,
	} {
		enginetest.Exec(t, r.pool, strings.ReplaceAll(statement, "= 1)", "= "+r.first()+")"))
	}
	done, err := r.Redrive(t.Context(), named("q", "g"), 0, false)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Matched: 2, Taken: 2}, counts(done))
}

// counts returns a result without its AsOf.
func counts(r deadletter.Result) deadletter.Result {
	r.AsOf = deadletter.AsOf{}
	return r
}

// first returns the id of the first partition.
func (r *fixture) first() (key string) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(r.t.Context(), `SELECT min(p.id)::text FROM belfry.partition p`).Scan(&key))
	return key
}

// Purge skips locked dead letters. A purge that waits for locked dead letters could deadlock with
// the deletion of a message that is a dead letter of several groups.
func TestPurgeSkipsLockedDeadLetters(t *testing.T) {
	r := newFixture(t)
	r.fill(3)
	tx, err := r.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	enginetest.Exec(t, tx, `SELECT id FROM belfry.dead_letter WHERE id = (SELECT max(id) - 1 FROM belfry.dead_letter) FOR UPDATE`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done, err := r.Purge(ctx, named("q", "g"), false)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Matched: 3, Taken: 2, Skipped: 1}, counts(done))
}

// The purge of a queue and the deletion of a message lock dead letters in different orders. So the
// deletion skips closed partitions.
func TestDeleteSkipsClosedPartitions(t *testing.T) {
	r := newFixture(t)
	r.fill(1)
	enginetest.Exec(t, r.pool, `UPDATE belfry.partition SET closed = true`)
	var touched, letters int
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*) FROM belfry.partition p, belfry.delete_message(p.id, 'p1')`).Scan(&touched))
	require.Zero(t, touched)
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*) FROM belfry.dead_letter`).Scan(&letters))
	require.Equal(t, 1, letters)
}

// The queries find dead letters by group and time of failure, and read only the rows of the list.
func TestListsUseTheIndexOfAGroup(t *testing.T) {
	r := newFixture(t)
	conn, err := r.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, name := range []string{"engine/deadletter/list", "engine/deadletter/page", "engine/deadletter/count", "engine/deadletter/count_page"} {
		prepared, err := conn.Conn().Prepare(t.Context(), name, sql.Query(name))
		require.NoError(t, err)
		rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE \""+name+"\" ("+strings.Join(slices.Repeat([]string{"NULL"}, len(prepared.ParamOIDs)), ", ")+")")
		require.NoError(t, err)
		var plan []string
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			plan = append(plan, line)
		}
		require.NoError(t, rows.Err())
		text := strings.Join(plan, "\n")
		require.Contains(t, text, "dead_letter_failed", "%s:\n%s", name, text)
		require.NotContains(t, text, "Seq Scan", "%s:\n%s", name, text)
	}
}

func TestMessageReturnsTheStateOfEachGroup(t *testing.T) {
	r := newFixture(t)
	r.fill(1)
	var partition [16]byte
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT uid FROM belfry.partition`).Scan(&partition))
	got, err := r.Message(t.Context(), partition, "p1")
	require.NoError(t, err)
	require.True(t, json.Valid(got.Payload))
	require.Len(t, got.Groups, 1)
	require.True(t, got.Groups[0].Dead)
	_, err = r.Message(t.Context(), partition, "none")
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))
}

// While a SQL consumer holds a cursor, the deletion of a message waits. Pushes to the partition
// continue meanwhile.
func TestADeletionThatWaitsBlocksNoPush(t *testing.T) {
	r := newFixture(t)
	r.fill(1)
	var partition [16]byte
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT uid FROM belfry.partition`).Scan(&partition))
	consumer, err := r.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() {
		// The test has already rolled back the transaction.
		require.ErrorIs(t, consumer.Rollback(context.WithoutCancel(t.Context())), pgx.ErrTxClosed)
	}()
	enginetest.Exec(t, consumer, `SELECT 1 FROM belfry.cursor FOR NO KEY UPDATE`)

	var deletion errgroup.Group
	var existed bool
	deletion.Go(func() (err error) {
		existed, err = r.Delete(t.Context(), queue.ID(partition), "p1")
		return err
	})
	require.Eventually(t, func() bool {
		var waits bool
		require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits))
		return waits
	}, time.Minute, 5*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = r.pool.Exec(ctx, `SELECT 1 FROM belfry.partition FOR NO KEY UPDATE`)
	require.NoError(t, err, "the lock that a push takes first is free")

	require.NoError(t, consumer.Rollback(t.Context()))
	require.NoError(t, deletion.Wait())
	require.True(t, existed)
}

// The epoch changes with every statement, so the ids that one statement found are not valid in the
// next one.
func TestVerbsChangeNothingInAnotherEpoch(t *testing.T) {
	r := newFixture(t)
	r.fill(2)
	var partition queue.ID
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT p.uid FROM belfry.partition p WHERE p.name = 'p1'`).Scan((*[16]byte)(&partition)))
	enginetest.Exec(t, r.pool, `CREATE SEQUENCE belfry.test_epochs;
		CREATE OR REPLACE FUNCTION belfry.epoch() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT nextval('belfry.test_epochs') $$`)
	for _, work := range []func() (deadletter.Result, error){
		func() (deadletter.Result, error) {
			return r.Redrive(t.Context(), named("q", "g"), 0, false)
		},
		func() (deadletter.Result, error) {
			return r.Purge(t.Context(), named("q", "g"), false)
		},
	} {
		done, err := work()
		require.NoError(t, err)
		require.Equal(t, deadletter.Result{Matched: 2, Skipped: 2}, counts(done))
	}
	_, err := r.Retry(t.Context(), partition, "p1", nil)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	page, err := r.List(t.Context(), named("q", "g"), deadletter.ListKey{}, 10, 0)
	require.NoError(t, err)
	require.Equal(t, int64(2), page.Total)
}

// Move deletes a dead letter only if its message is in the inbox for the other queue. The messages keep the order of the
// log. Dead letters without a readable message stay. A refused move and a dry run change nothing.
func TestMovePushesEachMessageOnce(t *testing.T) {
	r := newFixture(t)
	r.fill(7)
	exec := func(statement string) {
		enginetest.Exec(t, r.pool, statement)
	}
	read := func(query string) (got []string) {
		rows, err := r.pool.Query(t.Context(), query)
		require.NoError(t, err)
		for rows.Next() {
			var text string
			require.NoError(t, rows.Scan(&text))
			got = append(got, text)
		}
		require.NoError(t, rows.Err())
		return got
	}
	inbox := func() []string {
		return read(`SELECT concat_ws(' ', i.queue, i.partition, i.payload, i.transaction_id, i.trace_id) FROM belfry.inbox i ORDER BY i.id`)
	}
	letters := func() []string {
		return read(`SELECT p.name FROM belfry.dead_letter d JOIN belfry.partition p ON p.id = d.partition_id ORDER BY 1`)
	}
	const all, trace = 7, "0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f"
	exec(`UPDATE belfry.message m SET payload = '{"b" : 1.0}', trace_id = '` + trace + `' WHERE m.transaction_id = 'p1'`)
	exec(`UPDATE belfry.message m SET encrypted = true WHERE m.transaction_id = 'p2'`)
	exec(`DELETE FROM belfry.message m WHERE m.transaction_id = 'p3'`)
	_, err := r.Move(t.Context(), named("q", "g"), "parked", 0, false)
	require.EqualError(t, err, `queue "parked" does not exist: create it first`)
	exec(`INSERT INTO belfry.queue (name) VALUES ('parked')`)
	done, err := r.Move(t.Context(), named("q", "g"), "parked", 0, true)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Matched: all, Remaining: all}, counts(done))
	exec(`UPDATE belfry.queue SET encryption_enabled = true WHERE name = 'q'`)
	_, err = r.Move(t.Context(), named("q", "g"), "parked", 0, false)
	require.ErrorContains(t, err, `queue "q" has encryptionEnabled: its dead letters cannot be moved`)
	exec(`UPDATE belfry.queue SET encryption_enabled = false WHERE name = 'q'`)
	require.Empty(t, inbox())
	require.Len(t, letters(), all)

	tx, err := r.pool.Begin(t.Context()) // another transaction deletes one of the dead letters, and rolls back
	require.NoError(t, err)
	enginetest.Exec(t, tx, `DELETE FROM belfry.dead_letter d USING belfry.partition p WHERE p.id = d.partition_id AND p.name = 'p7'`)
	r.Bound(3, time.Minute)
	done, err = r.Move(t.Context(), named("q", "g"), "parked", 0, false)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, deadletter.Result{Matched: all, Taken: 4, Skipped: 3}, counts(done))
	require.Equal(t, []string{`parked p1 {"b" : 1.0} p1 ` + trace, "parked p4 {} p4", "parked p5 {} p5", "parked p6 {} p6"}, inbox())
	require.Equal(t, []string{"p2", "p3", "p7"}, letters())
}

package catalog_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// readiness counts the cursors of a queue by ready_at: NULL, past, within the next hour, and later.
type readiness struct{ none, now, withinHour, afterHour int64 }

func (r *fixture) readiness(key int64) readiness {
	r.t.Helper()
	var n readiness
	require.NoError(r.t, r.conn.QueryRow(enginetest.Context(r.t), `
		SELECT count(*) FILTER (WHERE c.ready_at IS NULL),
		       count(*) FILTER (WHERE c.ready_at <= clock_timestamp()),
		       count(*) FILTER (WHERE c.ready_at > clock_timestamp() AND c.ready_at <= clock_timestamp() + interval '1 hour'),
		       count(*) FILTER (WHERE c.ready_at > clock_timestamp() + interval '1 hour')
		  FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.queue_id = $1`, key).
		Scan(&n.none, &n.now, &n.withinHour, &n.afterHour))
	return n
}

func delay(seconds int64) func(*queue.Options) {
	return func(o *queue.Options) { o.DelayedProcessing = seconds }
}

func window(seconds int64) func(*queue.Options) {
	return func(o *queue.Options) { o.WindowBuffer = seconds }
}

func TestAChangedDelayOrWindowChangesReadyAt(t *testing.T) {
	r := newFixture(t)
	key, other := r.queueKey(r.configure("orders")), r.queueKey(r.configure("other"))
	for _, k := range []int64{key, other} {
		r.fill(k, size{partitions: 2, messages: 3, groups: 2})
	}
	require.Equal(t, readiness{now: 4}, r.readiness(key))

	r.configure("orders", delay(3000))
	require.Equal(t, readiness{withinHour: 4}, r.readiness(key))
	require.Equal(t, int64(4), r.number(`SELECT count(*) FROM belfry.cursor c JOIN belfry.message m
		ON m.partition_id = c.partition_id AND m.seq = 1 AND c.ready_at = m.created_at + interval '3000 seconds'`), "the delay counts from the first message")
	r.configure("orders", delay(6000))
	require.Equal(t, readiness{afterHour: 4}, r.readiness(key))
	r.configure("orders", delay(3000))
	require.Equal(t, readiness{withinHour: 4}, r.readiness(key))
	r.configure("orders")
	require.Equal(t, readiness{now: 4}, r.readiness(key), "the cursors are ready at once, not after the old delay")

	r.configure("orders", window(3000))
	require.Equal(t, readiness{withinHour: 4}, r.readiness(key))
	require.Equal(t, int64(4), r.number(`SELECT count(*) FROM belfry.cursor c JOIN belfry.partition p
		ON p.id = c.partition_id AND c.ready_at = p.last_push_at + interval '3000 seconds'`), "the window counts from the last push")
	r.configure("orders", delay(6000), window(3000))
	require.Equal(t, readiness{afterHour: 4}, r.readiness(key), "the longer time of delay and window counts")
	r.configure("orders", window(3000))
	require.Equal(t, readiness{withinHour: 4}, r.readiness(key))
	r.configure("orders")
	require.Equal(t, readiness{now: 4}, r.readiness(key))
	require.Equal(t, readiness{now: 4}, r.readiness(other), "other queues do not change")
}

func TestOtherOptionsDoNotChangeReadyAt(t *testing.T) {
	r := newFixture(t)
	key := r.queueKey(r.configure("orders", delay(60)))
	r.fill(key, size{partitions: 2, messages: 1, groups: 1})
	r.exec("UPDATE belfry.cursor SET ready_at = '2001-01-01'")
	r.configure("orders", delay(60), func(o *queue.Options) { o.LeaseTime, o.RetryLimit, o.TTL, o.Priority = 1, 2, 3, 4 })
	require.Equal(t, int64(2), r.number("SELECT count(*) FROM belfry.cursor WHERE ready_at = '2001-01-01'"))
	r.configure("orders", delay(61))
	require.Zero(t, r.number("SELECT count(*) FROM belfry.cursor WHERE ready_at = '2001-01-01'"))
}

func TestReadyAtChangesOnlyWithoutALiveLease(t *testing.T) {
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 6, messages: 3, groups: 1})
	partitionID := "(SELECT id FROM belfry.partition WHERE name = $1)"
	set := func(partition, columns string) {
		r.exec("UPDATE belfry.cursor SET "+columns+" WHERE partition_id = "+partitionID, partition)
	}
	const lease = "lease_id = '00000000-0000-0000-0000-000000000001', lease_end = 3, "
	// p1 is drained. ready_at stays NULL.
	set("p1", "committed = 3, ready_at = NULL")
	// p2 has a live lease. Nothing changes.
	set("p2", lease+"lease_until = clock_timestamp() + interval '1 hour', ready_at = clock_timestamp() + interval '1 hour'")
	// p3 has an expired lease. Configure clears it.
	set("p3", lease+"lease_until = clock_timestamp() - interval '1 hour', ready_at = clock_timestamp() - interval '1 hour'")
	// p4 has messages, but the wake after their push was lost.
	set("p4", "ready_at = NULL")
	// p5 has only the third message left, which is new.
	set("p5", "committed = 2")
	// p6 has been ready for years.
	set("p6", "ready_at = '2001-01-01'")
	r.exec(`UPDATE belfry.message SET created_at = created_at - interval '1 hour' WHERE seq < 3`)

	r.configure("orders", delay(1800))
	requireCursor := func(partition, condition string) {
		t.Helper()
		require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.cursor WHERE partition_id = "+partitionID+" AND "+condition, partition),
			"%s is not: %s", partition, condition)
	}
	// The first message is an hour old, so its delay of 30 minutes is over. ready_at is never before the change.
	const readyNow = "ready_at <= clock_timestamp() AND ready_at > clock_timestamp() - interval '10 minutes'"
	// The third message is new, so its delay of 30 minutes has just begun.
	const readyAfterDelay = "ready_at BETWEEN clock_timestamp() + interval '20 minutes' AND clock_timestamp() + interval '30 minutes'"
	requireCursor("p1", "ready_at IS NULL AND committed = 3")
	requireCursor("p2", "lease_id IS NOT NULL AND lease_until > clock_timestamp() AND ready_at > clock_timestamp() + interval '50 minutes'")
	requireCursor("p3", "lease_id IS NULL AND lease_until IS NULL AND lease_end IS NULL AND "+readyNow)
	requireCursor("p4", readyNow)
	requireCursor("p5", readyAfterDelay+" AND committed = 2")
	requireCursor("p6", readyNow)
}

func TestRecomputeCoversEveryPageOfPartitions(t *testing.T) {
	r := newFixture(t)
	key := r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 2500, messages: 1, groups: 1})
	r.configure("orders", delay(3000))
	require.Equal(t, readiness{withinHour: 2500}, r.readiness(key))
	r.configure("orders")
	require.Equal(t, readiness{now: 2500}, r.readiness(key))
}

func TestConfigureDoesNotWaitForAnUncommittedPush(t *testing.T) {
	r := newFixture(t)
	key := r.queueKey(r.configure("orders", delay(3000)))
	r.fill(key, size{partitions: 1, messages: 0, groups: 1})
	require.Equal(t, readiness{none: 1}, r.readiness(key))
	// A push holds its partition while the options change.
	pusher := enginetest.Connect(t, r.dsn)
	enginetest.Exec(t, pusher, `BEGIN;
		UPDATE belfry.partition SET last_seq = 1, last_push_at = clock_timestamp() WHERE name = 'p1';
		INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT id, 1, clock_timestamp(), gen_random_uuid(), 't', '1' FROM belfry.partition WHERE name = 'p1'`)
	watch := stopwatch.Start(t)
	r.configure("orders")
	watch.Within(t, enginetest.Patience/2, "Configure does not wait for a push")
	enginetest.Exec(t, pusher, "COMMIT")
	require.Equal(t, readiness{none: 1}, r.readiness(key), "the wake of the push comes after its commit")
}

// After a failure, a cursor with a retry delay is not ready before retry_at. A change of another
// option, or a shorter delay, does not change retry_at. Turning the retry delay off makes the
// cursor ready at once.
func TestOnlyTurningOffRetryDelayEndsTheWait(t *testing.T) {
	r := newFixture(t)
	set := settings("orders")
	configure := func() catalog.Configured {
		t.Helper()
		made, err := r.Configure(enginetest.Context(t), set)
		require.NoError(t, err)
		return made
	}
	key := r.queueKey(configure())
	r.fill(key, size{partitions: 2, messages: 1, groups: 1})
	r.exec("UPDATE belfry.cursor SET retry_at = clock_timestamp() + interval '50 minutes', ready_at = clock_timestamp() + interval '50 minutes'")
	set.Options.DelayedProcessing = 60
	configure()
	require.Equal(t, readiness{withinHour: 2}, r.readiness(key))
	set.Options.DelayedProcessing = 0
	configure()
	require.Equal(t, readiness{withinHour: 2}, r.readiness(key), "the wait for the retry continues")
	require.Equal(t, int64(2), r.number("SELECT count(*) FROM belfry.cursor WHERE ready_at = retry_at"))
	set.Options.RetryDelay = 5
	configure()
	require.Equal(t, readiness{withinHour: 2}, r.readiness(key), "a shorter delay applies only to later failures")
	set.Options.RetryDelay = 0
	configure()
	require.Equal(t, readiness{now: 2}, r.readiness(key))
}

// optionSetting is a delay in seconds and a retry backoff in milliseconds.
type optionSetting struct{ delay, backoff int64 }

const in50Minutes, redriving = "clock_timestamp() + interval '50 minutes'", "redrives = 1, committed = 3"

var recomputeRaces = map[string]struct {
	// before runs before the change. beside runs in a transaction that is open when the change
	// begins. last runs at the end of this transaction.
	before, beside, last string
	to                   optionSetting
}{
	"a redrive beside a message that waits for its retry": {
		before: `INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts) SELECT partition_id, 1, group_id, 0 FROM belfry.cursor;
			INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts, retry_at)
			SELECT partition_id, group_id, 2, 1, 1, ` + in50Minutes + ` FROM belfry.cursor;
			UPDATE belfry.cursor SET ` + redriving + `, ready_at = (SELECT retry_at FROM belfry.redrive)`,
		beside: `SELECT r.redriven FROM belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter)) AS r`,
		to:     optionSetting{0, 3_600_000},
	},
	"a failure of a redriven message": {
		before: `INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts)
			SELECT partition_id, group_id, 2, 1, 1 FROM belfry.cursor;
			UPDATE belfry.cursor SET ` + redriving,
		beside: `SELECT belfry.ack((SELECT p.lease FROM belfry.pop('orders', 'g1') AS p), status => 'failed')`,
		to:     optionSetting{3000, 0},
	},
	"an ack that ends a lease": {
		before: `UPDATE belfry.cursor SET lease_id = gen_random_uuid(), lease_until = ` + in50Minutes + `, lease_end = 1, ready_at = ` + in50Minutes,
		beside: `UPDATE belfry.cursor SET committed = 1, lease_id = NULL, lease_until = NULL, lease_end = NULL, ready_at = ` + in50Minutes,
		to:     optionSetting{0, 3_600_000},
	},
	"another change of options": {
		before: `SELECT`,
		beside: `SELECT FROM belfry.cursor FOR UPDATE`,
		last:   `UPDATE belfry.queue SET delayed_processing = 0; UPDATE belfry.cursor SET ready_at = clock_timestamp();`,
		to:     optionSetting{6000, 3_600_000},
	},
	"a push": {
		before: `UPDATE belfry.cursor SET committed = 3, ready_at = NULL`,
		beside: `SELECT FROM belfry.cursor FOR UPDATE; UPDATE belfry.partition SET last_seq = 4 WHERE name = 'p1';
			INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
			SELECT id, 4, clock_timestamp(), gen_random_uuid(), 't4', '1' FROM belfry.partition WHERE name = 'p1'`,
		to: optionSetting{0, 3_600_000},
	},
}

// An option changes while another transaction holds a cursor. Configure sees the changes of that
// transaction: the cursor is ready at the right time.
func TestConfigureSeesWhatIsCommittedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range recomputeRaces {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			configure := func(to optionSetting) (catalog.Configured, error) {
				set := settings("orders")
				set.Options.DelayedProcessing, set.Options.RetryDelay = to.delay, to.backoff
				return r.Configure(enginetest.Context(t), set)
			}
			made, err := configure(optionSetting{3000, 3_600_000})
			require.NoError(t, err)
			key := r.queueKey(made)
			r.fill(key, size{partitions: 1, messages: 3, groups: 1})
			r.exec(c.before)
			other := enginetest.Connect(t, r.dsn)
			enginetest.Exec(t, other, "BEGIN; "+c.beside)
			done := inBackground(func() (catalog.Configured, error) { return configure(c.to) })
			enginetest.Await(t, "Configure waits for the cursor, or ends", func() bool { return len(done) > 0 || r.lockWaiters() })
			enginetest.Exec(t, other, c.last+"COMMIT")
			require.NoError(t, <-done)
			require.Equal(t, readiness{now: 1}, r.readiness(key))
			require.Zero(t, r.number(`SELECT count(*) FROM belfry.cursor c JOIN belfry.redrive r USING (partition_id, group_id)
				WHERE belfry.redrives_ready_at(c.partition_id, c.group_id) > clock_timestamp()`), "no redriven message waits")
		})
	}
}

// withLockedCursor returns a queue with three partitions of one message each, and a session that
// holds the cursor of the second partition.
func withLockedCursor(t *testing.T) (r *fixture, key int64, holder *pgx.Conn) {
	t.Helper()
	r = newFixture(t)
	key = r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 3, messages: 1, groups: 1})
	holder = enginetest.Connect(t, r.dsn)
	enginetest.Exec(t, holder, `BEGIN; SELECT FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		WHERE p.name = 'p2' FOR UPDATE OF c`)
	return r, key, holder
}

// Configure waits for a locked cursor. It holds no lock meanwhile, and it recomputes the other
// cursors first.
func TestConfigureHoldsNoLockWhileItWaits(t *testing.T) {
	r, key, other := withLockedCursor(t)
	done := inBackground(func() (catalog.Configured, error) {
		return r.Configure(enginetest.Context(t), settings("orders", delay(3000)))
	})
	enginetest.Await(t, "Configure waits for the cursor", r.lockWaiters)
	require.Equal(t, readiness{now: 1, withinHour: 2}, r.readiness(key))
	require.Equal(t, int64(2), r.number(`SELECT count(*) FROM (SELECT FROM belfry.cursor FOR UPDATE SKIP LOCKED) AS free`))
	enginetest.Exec(t, other, "COMMIT")
	require.NoError(t, <-done)
	require.Equal(t, readiness{withinHour: 3}, r.readiness(key))
}

// After a failed Configure, the same request to the same instance completes the change. The test cancels the
// statement of the first request while it waits for the cursor, as a timeout would. The end of the context of the
// request would not cancel the statement.
func TestARepeatedConfigureCompletesAFailedOne(t *testing.T) {
	r, key, other := withLockedCursor(t)
	same := catalog.New(enginetest.Pool(t, r.dsn), nil, r.bus, zap.NewNop())
	set := settings("orders", delay(3000))
	ctx, cancel := context.WithCancel(enginetest.Context(t))
	done := inBackground(func() (catalog.Configured, error) { return same.Configure(ctx, set) })
	enginetest.Await(t, "Configure waits for the cursor", r.lockWaiters)
	cancel()
	require.Equal(t, int64(1), r.number(`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`))
	require.Error(t, <-done)
	enginetest.Exec(t, other, "COMMIT")
	require.Equal(t, readiness{now: 1, withinHour: 2}, r.readiness(key))
	_, err := same.Configure(enginetest.Context(t), set)
	require.NoError(t, err)
	require.Equal(t, readiness{withinHour: 3}, r.readiness(key))
}

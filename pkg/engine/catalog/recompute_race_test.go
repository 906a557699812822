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
)

// optionSetting is a delay in seconds and a retry backoff in milliseconds.
type optionSetting struct{ delay, backoff int64 }

const in50Minutes, redriving = "clock_timestamp() + interval '50 minutes'", "redrives = 1, committed = 3"

var recomputeRaces = map[string]struct {
	// before runs before the change, beside in a transaction that is open when the change begins,
	// last at the end of that transaction.
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
			t.Parallel()
			r := newFixture(t)
			configure := func(to optionSetting) (catalog.Configured, error) {
				set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
				set.Options.DelayedProcessing, set.Options.RetryDelay = to.delay, to.backoff
				return r.Configure(enginetest.Context(t), set)
			}
			made, err := configure(optionSetting{3000, 3_600_000})
			require.NoError(t, err)
			key := r.queueKey(made)
			r.fill(key, size{partitions: 1, messages: 3, groups: 1})
			r.exec(c.before)
			other := enginetest.Connect(t, r.dsn)
			_, err = other.Exec(enginetest.Context(t), "BEGIN; "+c.beside)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() {
				_, err := configure(c.to)
				done <- err
			}()
			enginetest.Await(t, "Configure waits for the cursor, or ends", func() bool { return len(done) > 0 || r.lockWaiters() })
			_, err = other.Exec(enginetest.Context(t), c.last+"COMMIT")
			require.NoError(t, err)
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
	_, err := holder.Exec(enginetest.Context(t), `BEGIN; SELECT FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		WHERE p.name = 'p2' FOR UPDATE OF c`)
	require.NoError(t, err)
	return r, key, holder
}

// Configure waits for a locked cursor. It holds no lock meanwhile, and it moves the other cursors
// first.
func TestConfigureHoldsNoLockWhileItWaits(t *testing.T) {
	t.Parallel()
	r, key, other := withLockedCursor(t)
	done := make(chan error, 1)
	go func() {
		set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
		set.Options.DelayedProcessing = 3000
		_, err := r.Configure(enginetest.Context(t), set)
		done <- err
	}()
	enginetest.Await(t, "Configure waits for the cursor", r.lockWaiters)
	require.Equal(t, readiness{now: 1, withinHour: 2}, r.readiness(key))
	require.Equal(t, int64(2), r.number(`SELECT count(*) FROM (SELECT FROM belfry.cursor FOR UPDATE SKIP LOCKED) AS free`))
	_, err := other.Exec(enginetest.Context(t), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, readiness{withinHour: 3}, r.readiness(key))
}

// After a failed Configure, the same request to the same instance completes the change. The statement of the first
// request is canceled while it waits for the cursor, as at its timeout: the end of its context does not cancel it.
func TestARepeatedConfigureCompletesAFailedOne(t *testing.T) {
	t.Parallel()
	r, key, other := withLockedCursor(t)
	same := catalog.New(enginetest.Pool(t, r.dsn), nil, r.bus, zap.NewNop())
	set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
	set.Options.DelayedProcessing = 3000
	ctx, cancel := context.WithCancel(enginetest.Context(t))
	done := make(chan error, 1)
	go func() {
		_, err := same.Configure(ctx, set)
		done <- err
	}()
	enginetest.Await(t, "Configure waits for the cursor", r.lockWaiters)
	cancel()
	require.Equal(t, int64(1), r.number(`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`))
	require.Error(t, <-done)
	_, err := other.Exec(enginetest.Context(t), "COMMIT")
	require.NoError(t, err)
	require.Equal(t, readiness{now: 1, withinHour: 2}, r.readiness(key))
	_, err = same.Configure(enginetest.Context(t), set)
	require.NoError(t, err)
	require.Equal(t, readiness{withinHour: 3}, r.readiness(key))
}

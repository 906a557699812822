package catalog_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// An option changes while somebody is at a cursor. What that one commits counts:
// nothing is due later than it says, and nothing is left asleep.
func TestAChangeOfOptionsMissesNothingThatIsCommittedBesideIt(t *testing.T) {
	t.Parallel()
	const rests, atRest = "clock_timestamp() + interval '50 minutes'", "redrives = 1, committed = 3"
	type setting struct{ delay, backoff int64 }
	for name, c := range map[string]struct {
		// before is done before the change, beside while it begins, last when it waits.
		before, beside, last string
		to                   setting
	}{
		"a redrive beside a message that rests": {
			before: `INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts) SELECT partition_id, 1, group_id, 0 FROM belfry.cursor;
				INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts, retry_at)
				SELECT partition_id, group_id, 2, 1, 1, ` + rests + ` FROM belfry.cursor;
				UPDATE belfry.cursor SET ` + atRest + `, ready_at = (SELECT retry_at FROM belfry.redrive)`,
			beside: `SELECT r.redriven FROM belfry.redrive_dead_letters(ARRAY (SELECT id FROM belfry.dead_letter)) AS r`,
			to:     setting{0, 3_600_000},
		},
		"a failure of what was redriven": {
			before: `INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts)
				SELECT partition_id, group_id, 2, 1, 1 FROM belfry.cursor;
				UPDATE belfry.cursor SET ` + atRest,
			beside: `SELECT belfry.ack((SELECT p.lease FROM belfry.pop('orders', 'g1') AS p), status => 'failed')`,
			to:     setting{3000, 0},
		},
		"an ack that ends a lease": {
			before: `UPDATE belfry.cursor SET lease_id = gen_random_uuid(), lease_until = ` + rests + `, lease_end = 1, ready_at = ` + rests,
			beside: `UPDATE belfry.cursor SET committed = 1, lease_id = NULL, lease_until = NULL, lease_end = NULL, ready_at = ` + rests,
			to:     setting{0, 3_600_000},
		},
		"another change of options": {
			before: `SELECT`,
			beside: `SELECT FROM belfry.cursor FOR UPDATE`,
			last:   `UPDATE belfry.queue SET delayed_processing = 0; UPDATE belfry.cursor SET ready_at = clock_timestamp();`,
			to:     setting{6000, 3_600_000},
		},
		"a push": {
			before: `UPDATE belfry.cursor SET committed = 3, ready_at = NULL`,
			beside: `SELECT FROM belfry.cursor FOR UPDATE; UPDATE belfry.partition SET last_seq = 4 WHERE name = 'p1';
				INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
				SELECT id, 4, clock_timestamp(), gen_random_uuid(), 't4', '1' FROM belfry.partition WHERE name = 'p1'`,
			to: setting{0, 3_600_000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			configure := func(to setting) (catalog.Configured, error) {
				set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
				set.Options.DelayedProcessing, set.Extensions.RetryBackoff = to.delay, to.backoff
				return r.Configure(soon(t), set)
			}
			made, err := configure(setting{3000, 3_600_000})
			require.NoError(t, err)
			key := r.queueKey(made)
			r.fill(key, size{partitions: 1, messages: 3, groups: 1})
			r.exec(c.before)
			other := connect(t, r.dsn)
			_, err = other.Exec(soon(t), "BEGIN; "+c.beside)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() {
				_, err := configure(c.to)
				done <- err
			}()
			r.await("the change waits for the cursor, or passes it", func() bool { return len(done) > 0 || r.somebodyWaits() })
			_, err = other.Exec(soon(t), c.last+"COMMIT")
			require.NoError(t, err)
			require.NoError(t, <-done)
			require.Equal(t, readiness{now: 1}, r.readiness(key))
			require.Zero(t, r.number(`SELECT count(*) FROM belfry.cursor c JOIN belfry.redrive r USING (partition_id, group_id)
				WHERE belfry.redrives_ready_at(c.partition_id, c.group_id) > clock_timestamp()`), "nor does what is redriven rest")
		})
	}
}

// held returns a room whose queue has three partitions with a message each, and a
// session that holds the cursor of the second one.
func held(t *testing.T) (r *room, key int64, holder *pgx.Conn) {
	t.Helper()
	r = newRoom(t)
	key = r.queueKey(r.configure("orders"))
	r.fill(key, size{partitions: 3, messages: 1, groups: 1})
	holder = connect(t, r.dsn)
	_, err := holder.Exec(soon(t), `BEGIN; SELECT FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
		WHERE p.name = 'p2' FOR UPDATE OF c`)
	require.NoError(t, err)
	return r, key, holder
}

// A change of options waits for who is at a cursor, and nobody waits for it
// meanwhile: the others are moved before.
func TestAChangeOfOptionsThatWaitsHoldsNothing(t *testing.T) {
	t.Parallel()
	r, key, other := held(t)
	done := make(chan error, 1)
	go func() {
		set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
		set.Options.DelayedProcessing = 3000
		_, err := r.Configure(soon(t), set)
		done <- err
	}()
	r.await("the change waits for the cursor", r.somebodyWaits)
	require.Equal(t, readiness{now: 1, within: 2}, r.readiness(key))
	require.Equal(t, int64(2), r.number(`SELECT count(*) FROM (SELECT FROM belfry.cursor FOR UPDATE SKIP LOCKED) AS free`))
	_, err := other.Exec(soon(t), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, readiness{within: 3}, r.readiness(key))
}

// Who is told to send a change of options again gets all of it then.
func TestAChangeOfOptionsThatFailedGoesOn(t *testing.T) {
	t.Parallel()
	r, key, other := held(t)
	set := catalog.Settings{Queue: "orders", Options: queue.DefaultDefaults().Options()}
	set.Options.DelayedProcessing = 3000
	ctx, cancel := context.WithCancel(soon(t))
	done := make(chan error, 1)
	go func() {
		_, err := r.Configure(ctx, set)
		done <- err
	}()
	r.await("the change waits for the cursor", r.somebodyWaits)
	cancel()
	require.Error(t, <-done)
	_, err := other.Exec(soon(t), "COMMIT")
	require.NoError(t, err)
	require.Equal(t, readiness{now: 1, within: 2}, r.readiness(key))
	_, err = r.Configure(soon(t), set)
	require.NoError(t, err)
	require.Equal(t, readiness{within: 3}, r.readiness(key))
}

package integration_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// pauses returns three ways to pause partition p of queue q for pops of the default group.
func pauses(q string) map[string]struct{ path, sql string } {
	return map[string]struct{ path, sql string }{
		"a queue":     {"/api/v1/resources/queues/" + q, `('` + q + `')`},
		"a partition": {"/api/v1/resources/queues/" + q + "/partitions/p", `('` + q + `', partition => 'p')`},
		"a group":     {groupsPath + "/" + queue.DefaultGroup + "/queues/" + q, `('` + q + `', consumer_group => '` + queue.DefaultGroup + `')`},
	}
}

// resumed returns the transition of a resume, over HTTP or in SQL.
func resumed(kind string, waits func(queue string) call, inSQL bool) transition {
	return transition{
		prepare: func(c client, q string) {
			c.pushIDs(q, "p", "old")
			drain(c, q)
			c.send1(post(pauses(q)[kind].path+"/pause", ""))
			c.pushIDs(q, "p", "m")
			require.Equal(c.t, http.StatusNoContent, c.pop(q, "").Status)
		},
		waits: waits,
		happens: func(c client, q string) {
			if inSQL {
				c.exec(`SELECT belfry.resume` + pauses(q)[kind].sql)
			} else {
				c.send1(post(pauses(q)[kind].path+"/resume", ""))
			}
		},
	}
}

// A pause must stop pops over HTTP and in SQL on every instance. Pushes, acks and lease extensions must continue, also for
// messages that were delivered before. Other queues, partitions and groups must not be affected.
func TestAPauseStopsOnlyPops(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	c, there := startOn(t, dsn, proven).client(t), startOn(t, dsn, proven).client(t)
	for kind := range pauses("") {
		q := "q-" + kind[2:]
		path, sql := pauses(q)[kind].path, pauses(q)[kind].sql
		for how, pause := range map[string]func(change string) (changed bool){
			"HTTP": func(change string) bool {
				return ask[struct{ Changed bool }](c, post(path+"/"+change, `{"reason":"maintenance"}`)).ok(http.StatusOK).Changed
			},
			"SQL": func(change string) (changed bool) {
				c.scan(t, `SELECT belfry.`+change+sql, nil, &changed)
				return changed
			},
		} {
			c.pushIDs(q, "p", "1", "2", "3")
			first := c.pop(q, "").ok(http.StatusOK)
			require.True(t, pause("pause"), how)
			require.False(t, pause("pause"), "a second pause must report no change")

			c.extend(first.LeaseID, `{"seconds":100}`).ok(http.StatusOK)
			c.exec(`SELECT belfry.extend($1, 200)`, first.LeaseID)
			got := c.ack(first.ack("completed", 0)[0]).ok(http.StatusOK)
			require.True(t, got[0].Success, got[0].reason())
			there.pushIDs(q, "p", "4")
			for _, one := range []client{c, there} {
				for range 2 { // twice, because the first pop may change the cursor
					require.Equal(t, http.StatusNoContent, one.pop(q, "").Status, "%s %s", kind, how)
					require.Equal(t, http.StatusNoContent, one.pop(q, "autoAck=true").Status, "%s %s", kind, how)
					require.Equal(t, http.StatusNoContent, one.popPartition(q, "p", "").Status, "%s %s", kind, how)
				}
			}
			var popped int
			c.scan(t, `SELECT count(*) FROM belfry.pop($1)`, []any{q}, &popped)
			require.Zero(t, popped, "%s %s", kind, how)
			c.scan(t, `SELECT count(*) FROM belfry.pop($1, partition => 'p')`, []any{q}, &popped)
			require.Zero(t, popped, "%s %s", kind, how)
			if kind == "a partition" {
				there.pushIDs(q, "other", "x")
				require.Equal(t, []string{"x"}, there.popIDs(q, "autoAck=true"))
			}
			if kind != "a queue" && kind != "a partition" {
				require.Len(t, c.popIDs(q, "consumerGroup="+how+"&batch=9&subscriptionMode=all"), 4)
			}

			require.True(t, pause("resume"), how)
			require.False(t, pause("resume"), how)
			require.Equal(t, []string{"2", "3", "4"}, c.popIDs(q, "batch=9&autoAck=true"), "%s %s", kind, how)
			c.exec(`DELETE FROM belfry.message`)
		}
	}
}

// While the transaction of a resume in SQL is open, a pop still sees the pause. Its claim would set ready_at to NULL, and
// no wake would follow the commit. So the transaction of the resume locks the cursors.
func TestAResumeInAnOpenTransactionStrandsNothing(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c := s.client(t)
	known(c, "q")
	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status) // registers the group
	c.pushIDs("q", "p", "1")
	c.send1(post("/api/v1/resources/queues/q/partitions/p/pause", ""))
	conn, err := pgx.Connect(t.Context(), s.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT belfry.resume('q', 'p')`)
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status)
	waiting := c.begin(anyOf("q"))
	c.untilWaiting(1)
	require.NoError(t, tx.Commit(t.Context()))
	var asleep int
	s.scan(t, `SELECT count(*) FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name = 'p' AND c.ready_at IS NULL`, nil, &asleep)
	require.Zero(t, asleep)
	require.Equal(t, []string{"1"}, waiting.delivery().ok(http.StatusOK).ids())
}

// If a SQL consumer waits during the pause of a partition, ready_at of its cursor becomes NULL. The resume must wake the
// consumer.
func TestAConsumerInSQLIsWokenByAResume(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c, consumer := s.client(t), newSQLConsumer(t, s.dsn, "g")
	for kind, asleep := range map[string]bool{"a queue": false, "a partition": true} {
		q := "q-" + kind[2:]
		c.pushIDs(q, "p", "1")
		c.exec(`SELECT belfry.pause` + pauses(q)[kind].sql)
		c.exec(`SELECT belfry.subscribe($1, 'g', 'all')`, q)
		consumer.drained(q)
		if asleep {
			until(t, "ready_at of the cursor is NULL", func() (done bool) {
				s.scan(t, `SELECT count(*) = 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.paused AND c.ready_at IS NULL`, nil, &done)
				return done
			})
		}
		c.exec(`SELECT belfry.resume` + pauses(q)[kind].sql)
		consumer.waitForWake()
		require.Equal(t, "1", consumer.next(q))
	}
}

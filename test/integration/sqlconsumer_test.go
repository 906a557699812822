package integration_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// openPop pops in a SQL transaction and leaves the transaction open.
func (s *server) openPop(t *testing.T, queue string) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	tag, err := tx.Exec(t.Context(), `SELECT lease FROM belfry.pop($1)`, queue)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	return tx
}

// While a SQL transaction that popped messages is open, other pops must find the partition empty, without an error and
// without an endless wait. After a rollback, a waiting pop must receive the messages. No notification follows a rollback,
// so the waiting pop probes again by timer.
func TestAWaitingPopReceivesMessagesRolledBackInSQL(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c := s.client(t)
	c.pushIDs("q", "", "first", "second")
	take(c, "q") // creates the group
	c.crash()
	tx := s.openPop(t, "q")

	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status)
	waiting := c.begin(anyOf("q"))
	c.untilWaiting(1)
	c.pushIDs("q", "", "third") // the push must not wait for the open transaction
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, []string{"first"}, waiting.delivery().ok(http.StatusOK).ids())
}

// When a SQL consumer drains a cursor, ready_at must become NULL without another pop.
func TestACursorDrainedInSQLIsSettled(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c := s.client(t)
	c.pushIDs("q", "", "m")
	tx := s.openPop(t, "q")
	var said int
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT belfry.ack(lease_id) FROM belfry.cursor WHERE lease_id IS NOT NULL`).Scan(&said))
	require.Equal(t, 1, said)
	require.NoError(t, tx.Commit(t.Context()))
	until(t, "ready_at of the cursor is NULL", func() (asleep bool) {
		s.scan(t, `SELECT ready_at IS NULL AND committed = 1 FROM belfry.cursor`, nil, &asleep)
		return asleep
	})
	c.pushIDs("q", "", "n")
	require.Equal(t, []string{"n"}, c.popIDs("q", ""))
}

// A SQL consumer commits its lease long after the claim. So the lease ends before the time that waiting pops have computed
// meanwhile. The commit must notify them of the lease, and they must wait for its end.
func TestAWaitingPopReceivesMessagesOfALateLease(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c := s.client(t)
	options(c, "q", "leaseTime", 2)
	c.pushIDs("q", "", "m")
	take(c, "q") // creates the group
	c.crash()
	tx := s.openPop(t, "q")
	var popped, now time.Time
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&popped))
	// There are two pops of one group, so that they probe in one round.
	waiting := []*pendingCall{c.begin(anyOf("q")), c.begin(anyOf("q"))}
	c.untilWaiting(2)
	until(t, "the lease is half over", func() bool {
		s.scan(t, `SELECT clock_timestamp()`, nil, &now)
		return now.Sub(popped) > 1200*time.Millisecond
	})
	require.NoError(t, tx.Commit(t.Context()))
	got := waiting[0]
	select {
	case <-waiting[0].done:
	case <-waiting[1].done:
		got = waiting[1]
	}
	require.Equal(t, []string{"m"}, got.delivery().ok(http.StatusOK).ids())
}

package integration_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Any role can send notifications. While 20 pops wait, a role sends 10,000 notifications that the server cannot read. The
// server must run few statements because of them, and must still deliver a message.
func TestGarbageNotificationsCostFewStatements(t *testing.T) {
	t.Parallel()
	const many, queues = 10_000, 20
	s := start(t, proven)
	s.untilProven(t, 0)
	c := s.client(t)
	waiting := make([]*pendingCall, queues)
	for i := range waiting {
		name := fmt.Sprint("q", i)
		c.configure(name, nil).ok(http.StatusOK)
		waiting[i] = c.begin(popCall(name, "wait=true&timeout=60000"))
	}
	c.untilWaiting(queues)
	role := producer(t, s.dsn)
	before, transactions, began := probes(t, s), s.transactions(t), time.Now()
	for burst := range 10 {
		execute(t, role, fmt.Sprintf(`SELECT count(pg_notify('belfry', 'garbage ' || i)) FROM generate_series(%d, %d) i`,
			burst*many/10+1, (burst+1)*many/10))
	}
	scrapes := 0
	until(t, "the server has received all unreadable notifications", func() bool {
		scrapes++ // each scrape costs a transaction
		return s.metric(t, "belfry_listener_garbage_total") == many
	})
	heard := time.Now()
	until(t, "the last probe has ended and Postgres has written its statistics", func() bool { return time.Since(heard) > 2*time.Second })
	looks, cost := probes(t, s)-before, s.transactions(t)-transactions
	allowed := (6 + int(time.Since(began).Seconds())) * 2 * queues
	t.Logf("%d probes, %d transactions with %d scrapes", looks, cost, scrapes)
	require.Positive(t, looks, "an unreadable notification must cause a probe, because it may have been a hint")
	require.LessOrEqual(t, looks, allowed, "at most five probes of each waiting target, and one a second")
	require.Less(t, cost, allowed+scrapes+100)
	c.pushIDs("q7", "", "m")
	require.Equal(t, []string{"m"}, waiting[7].delivery().ok(http.StatusOK).ids())
}

// transactions returns the number of transactions in the database.
func (s *server) transactions(t *testing.T) (n int) {
	t.Helper()
	s.scan(t, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`, nil, &n)
	return n
}

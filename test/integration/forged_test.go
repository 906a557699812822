package integration_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/stopwatch"
)

// Any role can send notifications in the format of the instances. A role sends 10,000 forged notifications in 500 commits:
// about groups without messages, creations, resyncs, heartbeats and rows in the inbox. 20 pops wait for existing queues,
// and 20 for queues that do not exist. The server must run few statements because of the notifications. Other pops must
// still get pushed messages quickly.
func TestForgedNotificationsCostFewStatements(t *testing.T) {
	t.Parallel()
	const commits, each, waiters, pushes = 500, 20, 20, 20
	s := start(t, proven)
	s.untilProven(t, 0)
	c := s.client(t)
	var waiting []*pendingCall
	for i := range waiters {
		name := fmt.Sprint("q", i)
		c.configure(name, nil).ok(http.StatusOK)
		waiting = append(waiting, c.begin(popCall(name, "wait=true&timeout=60000")), c.begin(popCall("no-"+name, "wait=true&timeout=60000")))
	}
	c.untilWaiting(len(waiting))
	var group int
	s.scan(t, `SELECT max(id) FROM belfry.consumer_group`, nil, &group)
	settled := func() int {
		now := time.Now()
		until(t, "Postgres has written its statistics", func() bool { return time.Since(now) > 1200*time.Millisecond })
		return s.transactions(t)
	}
	before, role, forged := settled(), producer(t, s.dsn), make(chan time.Duration, 1)
	go func() { forged <- forge(t, role, commits, each, group, waiters) }()
	var took []time.Duration
	late := 0
	for i := range pushes {
		pop := c.begin(popCall("honest", "wait=true&timeout=60000&autoAck=true"))
		c.untilWaiting(len(waiting) + 1)
		pushed := stopwatch.Start(t)
		c.pushIDs("honest", fmt.Sprint(i%3), fmt.Sprint("m", i))
		require.Equal(t, []string{fmt.Sprint("m", i)}, pop.delivery().ok(http.StatusOK).ids())
		took = append(took, pushed.Elapsed())
		if pushed.Elapsed() > pushed.Allowed(time.Second) {
			late++
		}
	}
	duration := <-forged
	slices.Sort(took)
	cost := settled() - before - commits
	t.Logf("%d notifications in %s, %d transactions; pushes arrived after a median of %s and a maximum of %s",
		commits*each, duration, cost, took[pushes/2], took[pushes-1])
	require.Less(t, cost, 2_500+int(1_000*duration.Seconds()))
	require.Less(t, late, pushes/2)
}

// forge sends the notifications. They name the ids of groups that end at group.
func forge(t *testing.T, role *pgx.Conn, commits, each, group, groups int) time.Duration {
	began := time.Now()
	for i := range commits {
		if _, err := role.Exec(t.Context(), `
			SELECT count(CASE i % 5
				WHEN 0 THEN pg_notify('belfry_inbox', i::text)
				WHEN 1 THEN pg_notify('belfry', format('1;i=00000000-0000-0000-0000-000000000001;c=%s', i))
				ELSE pg_notify('belfry', '1;i=00000000-0000-0000-0000-000000000000' || CASE i % 5
					WHEN 2 THEN format(';r=%s/0@%s', $1::bigint - i / 5 % $2, i)
					WHEN 3 THEN format(';c=%s;born', i)
					ELSE format(';c=%s;all', i) END) END::text), pg_sleep(0.0015)
			FROM generate_series($3::int, $4::int) i`, group, groups, i*each+1, (i+1)*each); err != nil {
			t.Error(err)
		}
	}
	return time.Since(began)
}

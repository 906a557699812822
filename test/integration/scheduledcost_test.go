//go:build installed

package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// silent is a time without an instant.
const silent = 10 * time.Second

// While no schedule is due, 100,000 schedules cost no statement, and neither does an empty table of schedules. An instant costs
// the instance one read and one write.
func TestSchedulesCostNothingBetweenInstants(t *testing.T) {
	t.Parallel()
	l, dsn := newLedger(t)
	s := startOn(t, dsn, withoutTimers)
	s.untilProven(t, 0)
	quiet := func(why string) {
		l.untilQuiet()
		l.reset()
		<-time.After(silent)
		n, list := l.statements()
		require.Zero(t, n, why+list)
	}
	quiet("without schedules:")

	sql := producer(t, dsn)
	// The server has computed the instants of these schedules before. Half of them come after a year or never.
	execute(t, sql, `INSERT INTO belfry.schedule (name, queue, every_seconds, payload, scheduled_by, handled_to, next_at, due_at)
		SELECT 's' || i, 'q', 3600 + i, '1', current_user::regrole, now(), now() + i * interval '1 s' + interval '1 hour',
		       CASE i % 4 WHEN 0 THEN now() + interval '1 year' WHEN 1 THEN NULL ELSE now() + i * interval '1 s' + interval '1 hour' END
		  FROM generate_series(1, 100000) i`)
	quiet("with 100,000 schedules that are not due:")

	l.reset()
	execute(t, sql, `SELECT belfry.schedule('soon', 'q', '1', at => clock_timestamp() + interval '2 s')`)
	until(t, "the message arrives", func() bool { return s.messages(t) == 1 })
	l.untilQuiet()
	require.Equal(t, 2, l.calls("Reads at most % schedules that are due"), "one read after the change, and one at the instant")
	require.Equal(t, 2, l.calls("Handles instants of schedules"), "one write after the change, and one at the instant")
	quiet("after an instant:")
}

// messages returns the number of messages in the log.
func (s *server) messages(t *testing.T) (n int) {
	t.Helper()
	s.scan(t, `SELECT count(*) FROM belfry.message`, nil, &n)
	return n
}

// calls counts the statements whose comment begins like this.
func (l *ledger) calls(like string) (n int) {
	l.t.Helper()
	require.NoError(l.t, l.admin.QueryRow(l.t.Context(), `SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '-- ' || $1 || '%'`, like).Scan(&n))
	return n
}

package listen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// Notifications of any role make others look at once, then at a pace, and again after the last one.
// They do not disturb the proof. The SQL expressions make payloads from a number.
func TestManyNotificationsRequestFewLooks(t *testing.T) {
	t.Parallel()
	const many, bursts = 10_000, 10
	for name, c := range map[string]struct {
		payload  string
		interval time.Duration
		burst    int
		garbage  int
	}{
		"unreadable": {`'garbage ' || i`, listen.LookInterval, listen.LookBurst, many},
		"resync":     {`'1;i=00000000-0000-0000-0000-000000000001;c=' || i || ';all'`, listen.LookInterval, listen.LookBurst, 0},
		"created":    {`'1;i=00000000-0000-0000-0000-000000000001;c=' || i || ';born'`, listen.CreatedInterval, listen.CreatedBurst, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.DatabaseWithoutSchema(t)
			a := startProven(t, dsn, dsn, listen.DefaultConfig())
			conn := connect(t, dsn)
			began := time.Now()
			var last time.Time
			for burst := range bursts {
				exec(t, conn, `SELECT pg_sleep(0.05)`)
				last = time.Now()
				exec(t, conn, `SELECT count(pg_notify($1, `+c.payload+`)) FROM generate_series($2::int, $3::int) i`,
					listen.Channel, burst*many/bursts+1, (burst+1)*many/bursts)
			}
			var calls []time.Time
			for len(calls) == 0 || calls[len(calls)-1].Before(last) {
				calls = append(calls, a.next(t).at)
			}
			exec(t, conn, `SELECT pg_sleep(1.5)`)
			for len(a.events) > 0 {
				calls = append(calls, a.next(t).at)
			}
			require.Less(t, calls[0].Sub(began), time.Second, "the first call does not wait")
			most := c.burst + 1 + int(calls[len(calls)-1].Sub(began)/c.interval)
			require.LessOrEqual(t, len(calls), most)
			require.EqualValues(t, c.garbage, a.listener.Garbage())
			require.True(t, a.listener.Proven())
			require.Equal(t, min(c.garbage, 1), a.logged(zapcore.WarnLevel), "one line a minute")
		})
	}
}

func TestAnUnreadableSQLWaiterIsCounted(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	exec(t, connect(t, dsn), `SELECT pg_notify($1, 'orders')`, listen.AwaitChannel)
	require.Eventually(t, func() bool { return a.listener.Garbage() == 1 }, patience, 10*time.Millisecond)
}

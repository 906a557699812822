package listen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// Notifications of any role make others look at once, then at a pace, and again after the last one. They do not disturb
// the proof. The SQL expressions make payloads from a number. TestAPacedCallComesAfterTheLastRequest checks the pace.
func TestManyNotificationsRequestFewLooks(t *testing.T) {
	t.Parallel()
	const many, bursts = 2_000, 10
	for name, c := range map[string]struct {
		payload    string
		interval   time.Duration
		burst      int
		unreadable int
	}{
		"unreadable": {`'garbage ' || i`, listen.LookInterval, listen.LookBurst, many},
		"forged":     {`'1;i=00000000-0000-0000-0000-000000000001;c=' || i || ';all'`, listen.LookInterval, listen.LookBurst, many},
		"resync":     {`'1;i=00000000-0000-0000-0000-000000000000;c=' || i || ';all'`, listen.LookInterval, listen.LookBurst, 0},
		"created":    {`'1;i=00000000-0000-0000-0000-000000000000;c=' || i || ';born'`, listen.CreatedInterval, listen.CreatedBurst, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.Database(t)
			a := startProven(t, dsn, dsn, listen.DefaultConfig())
			conn := connect(t, dsn)
			watch, began := stopwatch.Start(t), time.Now()
			var last time.Time
			for burst := range bursts {
				last = time.Now()
				exec(t, conn, `SELECT count(pg_notify($1, `+c.payload+`)) FROM generate_series($2::int, $3::int) i`,
					listen.Channel, burst*many/bursts+1, (burst+1)*many/bursts)
			}
			exec(t, conn, `SELECT pg_notify($1, '1;i=00000000-0000-0000-0000-000000000000;r=7/0@0')`, listen.Channel)
			var calls []time.Time
			for heard := false; !heard || calls[len(calls)-1].Before(last); {
				if e := a.next(t); e.message.Ready != nil {
					heard = true
				} else {
					calls = append(calls, e.at)
				}
			}
			require.Less(t, calls[0].Sub(began), watch.Allowed(time.Second), "the first call does not wait")
			most := c.burst + 1 + int(calls[len(calls)-1].Sub(began)/c.interval)
			require.LessOrEqual(t, len(calls), most)
			require.EqualValues(t, c.unreadable, a.listener.Unreadable())
			require.True(t, a.listener.Proven())
			require.Equal(t, min(c.unreadable, 1), a.logged(zapcore.WarnLevel), "one line a minute")
		})
	}
}

func TestAnUnreadableSQLWaiterIsCounted(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	exec(t, connect(t, dsn), `SELECT pg_notify($1, 'orders')`, listen.AwaitChannel)
	require.Eventually(t, func() bool { return a.listener.Unreadable() == 1 }, patience, 10*time.Millisecond)
}

package listen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// Garbage is answered at once, then at most once a second, and again after the last one. It does not
// disturb the proof.
func TestManyUnreadablePayloadsRequestFewLooks(t *testing.T) {
	t.Parallel()
	const many, bursts = 10_000, 10
	dsn := pgtest.DatabaseWithoutSchema(t)
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	conn := connect(t, dsn)
	began := time.Now()
	var last time.Time
	for burst := range bursts {
		exec(t, conn, `SELECT pg_sleep(0.05)`)
		last = time.Now()
		exec(t, conn, `SELECT count(pg_notify($1, 'garbage ' || i)) FROM generate_series($2::int, $3::int) i`,
			listen.Channel, burst*many/bursts+1, (burst+1)*many/bursts)
	}
	var answers []time.Time
	for len(answers) == 0 || answers[len(answers)-1].Before(last) || a.listener.Garbage() < many {
		e := a.next(t)
		require.Contains(t, e.resync, "garbage")
		answers = append(answers, e.at)
	}
	exec(t, conn, `SELECT pg_sleep(1.5)`)
	for len(a.events) > 0 {
		answers = append(answers, a.next(t).at)
	}
	require.Less(t, answers[0].Sub(began), time.Second, "the first answer does not wait")
	for i := 1; i < len(answers); i++ {
		require.Greater(t, answers[i].Sub(answers[i-1]), 800*time.Millisecond)
	}
	require.EqualValues(t, many, a.listener.Garbage())
	require.True(t, a.listener.Proven())
	require.Equal(t, 1, a.logged(zapcore.WarnLevel), "one line a minute")
	exec(t, conn, `SELECT pg_notify($1, 'orders')`, listen.AwaitChannel)
	require.Eventually(t, func() bool { return a.listener.Garbage() == many+1 }, patience, 10*time.Millisecond)
}

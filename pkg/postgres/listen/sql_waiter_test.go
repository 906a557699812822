package listen_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxNameBytes is the longest name that belfry.await and the listener accept.
const maxNameBytes = 255

// waitOnListening waits until the listener calls OnListening. If a SQL waiter arrives first, the test fails.
func (i *instance) waitOnListening(t *testing.T) {
	t.Helper()
	require.Zero(t, i.nextWaiter(t), "a SQL waiter instead of the call of OnListening")
}

// nextWaiter returns the next SQL waiter, or the zero SQLWaiter for a call of OnListening.
func (i *instance) nextWaiter(t *testing.T) queue.SQLWaiter {
	t.Helper()
	select {
	case w := <-i.waiters:
		return w
	case <-time.After(patience):
		t.Fatalf("no SQL waiter was received; logs: %v", i.logs.All())
		return queue.SQLWaiter{}
	}
}

// From the notification of belfry.await, the listener reads the names that belfry.await received, and the channel that
// belfry.await returned. The names may have any characters.
func TestAwaitRegistersASQLWaiter(t *testing.T) {
	dsn := database(t)
	i := startProven(t, dsn, dsn, listen.DefaultConfig())
	i.waitOnListening(t)
	conn := connect(t, dsn)
	long := strings.Repeat("\x01", maxNameBytes)
	for _, names := range [][]*string{
		{new("orders"), new("billing"), nil},
		{new("orders"), new("billing"), new("")},
		{new(`a "b" \c`), new("Grüße ☂ 🔔"), new("tab\tnewline\n</script>&")},
		{&long, &long, &long},
	} {
		var channel string
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT belfry.await($1, $2, $3)`, names[0], names[1], names[2]).Scan(&channel))
		require.Equal(t, queue.SQLWaiter{Queue: *names[0], Group: *names[1], Partition: names[2], Channel: channel}, i.nextWaiter(t))
		var listening []string
		rows, err := conn.Query(t.Context(), `SELECT pg_listening_channels()`)
		require.NoError(t, err)
		listening, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Subset(t, listening, []string{channel, queue.AwaitAgainChannel})
	}
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT belfry.await('rolled back', 'g')`)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	exec(t, conn, `SELECT belfry.await('q')`)
	require.Equal(t, "q", i.nextWaiter(t).Queue)
	require.Zero(t, i.logged(zapcore.WarnLevel))
}

// The listener calls OnListening at its first LISTEN, and again at the LISTEN of the session that replaces a terminated session.
// The new session receives SQL waiters.
func TestOnListeningIsCalledEachTimeListenTakesEffect(t *testing.T) {
	dsn := database(t)
	i := startProven(t, dsn, dsn, listen.DefaultConfig())
	i.waitOnListening(t)
	conn := connect(t, dsn)
	terminate(t, conn, "belfry-listen")
	i.waitOnListening(t)
	exec(t, conn, `SELECT belfry.await('q')`)
	require.Equal(t, "q", i.nextWaiter(t).Queue, "the new session receives SQL waiters")
}

// A payload of another session on the channel is no SQL waiter, even if it repeats a payload of belfry.await.
func TestOnlyAwaitMakesASQLWaiter(t *testing.T) {
	dsn := database(t)
	i := startProven(t, dsn, dsn, listen.DefaultConfig())
	i.waitOnListening(t)
	waiter, other := connect(t, dsn), connect(t, dsn)
	exec(t, other, `LISTEN belfry_await`)
	exec(t, waiter, `SELECT belfry.await('first')`)
	heard, err := other.WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "first", i.nextWaiter(t).Queue)
	forged := []string{heard.Payload, heard.Payload[1:], `["q","g",null]`, "", "AAAA", strings.Repeat("A", 64)}
	for _, payload := range forged {
		exec(t, other, `SELECT pg_notify('belfry_await', $1)`, payload)
	}
	exec(t, waiter, `SELECT belfry.await('second')`)
	require.Equal(t, "second", i.nextWaiter(t).Queue)
	require.EqualValues(t, len(forged), i.listener.Unreadable())
	require.Equal(t, len(forged), i.logs.FilterMessageSnippet("ignored an unreadable SQL waiter").Len())
}

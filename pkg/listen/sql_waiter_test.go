package listen_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// maxNameBytes is the longest name that belfry.await and the listener accept.
const maxNameBytes = 255

// waitOnListening waits until the listener calls OnListening. A SQL waiter before that fails the test.
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

// The listener reads the same names and the same channel from the notification of belfry.await that
// belfry.await received and returned, whatever characters the names have.
func TestAwaitRegistersASQLWaiter(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
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

// The listener calls OnListening at its first LISTEN, and again at the LISTEN of the session that
// replaces a terminated one. The new session receives SQL waiters.
func TestOnListeningIsCalledEachTimeListenTakesEffect(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	i := startProven(t, dsn, dsn, listen.DefaultConfig())
	i.waitOnListening(t)
	conn := connect(t, dsn)
	terminate(t, conn, "belfry-listen")
	i.waitOnListening(t)
	exec(t, conn, `NOTIFY belfry_await, '["q","g",null]'`)
	require.Equal(t, "q", i.nextWaiter(t).Queue, "the new session receives SQL waiters")
}

func TestAnUnreadableSQLWaiterIsLogged(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	i := startProven(t, dsn, dsn, listen.DefaultConfig())
	i.waitOnListening(t)
	conn := connect(t, dsn)
	exec(t, conn, `NOTIFY belfry_await, 'orders'`)
	exec(t, conn, `NOTIFY belfry_await, '["q","g",null]'`)
	require.Equal(t, "q", i.nextWaiter(t).Queue)
	require.Equal(t, 1, i.logs.FilterMessageSnippet("ignored an unreadable SQL waiter").Len())
}

func TestDecodeSQLWaiterRejectsMalformedPayloads(t *testing.T) {
	t.Parallel()
	tooLong, err := json.Marshal([]any{"q", strings.Repeat("x", maxNameBytes+1), nil})
	require.NoError(t, err)
	for payload, want := range map[string]string{
		``: "unexpected end of JSON input", `null`: "want a JSON array of queue, group and partition", `{}`: "cannot unmarshal", `["q"]`: "want a JSON array of queue, group and partition", `["q","g"]`: "want a JSON array of queue, group and partition",
		`["q","g",null,null]`: "want a JSON array of queue, group and partition", `[null,"g",null]`: "want a JSON array of queue, group and partition", `["q",null,null]`: "want a JSON array of queue, group and partition",
		`["","g",null]`: "a name is empty", `["q","",null]`: "a name is empty", `["q","g",1]`: "cannot unmarshal",
		"[\"q\",\"g\",null]\n": "", `["q","g",null]]`: "after top-level value", `["q","g",null]["q","g",null]`: "after top-level value",
		string(tooLong): "a name has 256 characters, the limit is 255", `["a\u0000b","g",null]`: "NUL", `["q","g","\u0000"]`: "NUL",
	} {
		waiter, err := listen.DecodeSQLWaiter(payload)
		if want == "" {
			require.NoError(t, err, payload)
			continue
		}
		require.ErrorContains(t, err, want, payload)
		require.Zero(t, waiter)
	}
}

// Whatever the payload is, an accepted SQL waiter has a queue, a group and a channel.
func FuzzDecodeSQLWaiter(f *testing.F) {
	f.Add(`["orders","billing",null]`)
	f.Add(`["orders","billing","7"]`)
	f.Fuzz(func(t *testing.T, payload string) {
		waiter, err := listen.DecodeSQLWaiter(payload)
		if err != nil {
			require.Zero(t, waiter)
			return
		}
		require.NotEmpty(t, waiter.Queue)
		require.NotEmpty(t, waiter.Group)
		require.Regexp(t, `^belfry_[0-9a-f]{32}$`, waiter.Channel)
		require.NotContains(t, waiter.Queue+waiter.Group, "\x00")
	})
}

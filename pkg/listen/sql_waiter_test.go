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

// nextWaiter returns the next SQL waiter. The zero SQLWaiter stands for OnListening.
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

// belfry.await and the listener agree on the names and on the channel, whatever the names are.
func TestAwaitRegistersASQLWaiter(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	i := proven(t, dsn, dsn, listen.DefaultConfig())
	require.Zero(t, i.nextWaiter(t))
	conn := connect(t, dsn)
	long := strings.Repeat("\x01", 255)
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

// Each time LISTEN takes effect, SQL waiters are asked to register again.
func TestOnListeningIsCalledWhenListenTakesEffect(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	i := proven(t, dsn, dsn, listen.DefaultConfig())
	require.Zero(t, i.nextWaiter(t))
	conn := connect(t, dsn)
	terminate(t, conn, "belfry-listen")
	require.Zero(t, i.nextWaiter(t))
	exec(t, conn, `NOTIFY belfry_await, '["q","g",null]'`)
	require.Equal(t, "q", i.nextWaiter(t).Queue, "the new session receives SQL waiters")
}

func TestAnUnreadableSQLWaiterIsLogged(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	i := proven(t, dsn, dsn, listen.DefaultConfig())
	require.Zero(t, i.nextWaiter(t))
	conn := connect(t, dsn)
	exec(t, conn, `NOTIFY belfry_await, 'orders'`)
	exec(t, conn, `NOTIFY belfry_await, '["q","g",null]'`)
	require.Equal(t, "q", i.nextWaiter(t).Queue)
	require.Equal(t, 1, i.logs.FilterMessageSnippet("ignored an unreadable SQL waiter").Len())
}

func TestDecodeSQLWaiterRejectsOtherPayloads(t *testing.T) {
	t.Parallel()
	tooLong, err := json.Marshal([]any{"q", strings.Repeat("x", 256), nil})
	require.NoError(t, err)
	for payload, want := range map[string]string{
		``: "unexpected end of JSON input", `null`: "it is not queue", `{}`: "cannot unmarshal", `["q"]`: "it is not queue", `["q","g"]`: "it is not queue",
		`["q","g",null,null]`: "it is not queue", `[null,"g",null]`: "it is not queue", `["q",null,null]`: "it is not queue",
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
		require.Len(t, waiter.Channel, 39)
		require.NotContains(t, waiter.Queue+waiter.Group, "\x00")
	})
}

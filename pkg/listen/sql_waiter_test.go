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

// nextWish returns the next wish; the zero one is that all are to ask again.
func (i *instance) nextWish(t *testing.T) queue.SQLWaiter {
	t.Helper()
	select {
	case w := <-i.wishes:
		return w
	case <-time.After(patience):
		t.Fatalf("no wish was heard; logs: %v", i.logs.All())
		return queue.SQLWaiter{}
	}
}

// The function and the listener agree on what is waited for, and on the channel,
// whatever the names are.
func TestAWishIsHeardAsItWasSaid(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	i := proven(t, dsn, dsn, listen.DefaultConfig())
	require.Zero(t, i.nextWish(t))
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
		require.Equal(t, queue.SQLWaiter{Queue: *names[0], Group: *names[1], Partition: names[2], Channel: channel}, i.nextWish(t))
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
	require.Equal(t, "q", i.nextWish(t).Queue)
	require.Zero(t, i.logged(zapcore.WarnLevel))
}

// Each time LISTEN comes into force, whoever was not heard is told to ask again.
func TestWhoWasNotHeardIsToldToAskAgain(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	i := proven(t, dsn, dsn, listen.DefaultConfig())
	require.Zero(t, i.nextWish(t))
	conn := connect(t, dsn)
	terminate(t, conn, "belfry-listen")
	require.Zero(t, i.nextWish(t))
	exec(t, conn, `NOTIFY belfry_await, '["q","g",null]'`)
	require.Equal(t, "q", i.nextWish(t).Queue, "and from then on it is heard")
}

func TestAWishThatIsNotUnderstoodIsLogged(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	i := proven(t, dsn, dsn, listen.DefaultConfig())
	require.Zero(t, i.nextWish(t))
	conn := connect(t, dsn)
	exec(t, conn, `NOTIFY belfry_await, 'orders'`)
	exec(t, conn, `NOTIFY belfry_await, '["q","g",null]'`)
	require.Equal(t, "q", i.nextWish(t).Queue)
	require.Equal(t, 1, i.logs.FilterMessageSnippet("what a consumer in SQL waits for was not understood").Len())
}

func TestWishesThatAreNone(t *testing.T) {
	t.Parallel()
	tooLong, err := json.Marshal([]any{"q", strings.Repeat("x", 256), nil})
	require.NoError(t, err)
	for payload, want := range map[string]string{
		``: "EOF", `null`: "it is not queue", `{}`: "cannot unmarshal", `["q"]`: "it is not queue", `["q","g"]`: "it is not queue",
		`["q","g",null,null]`: "it is not queue", `[null,"g",null]`: "it is not queue", `["q",null,null]`: "it is not queue",
		`["","g",null]`: "a name is empty", `["q","",null]`: "a name is empty", `["q","g",1]`: "cannot unmarshal",
		"[\"q\",\"g\",null]\n": "", `["q","g",null]]`: "something follows", `["q","g",null]["q","g",null]`: "something follows",
		string(tooLong): "a name has 256 characters, the limit is 255", `["a\u0000b","g",null]`: "NUL", `["q","g","\u0000"]`: "NUL",
	} {
		wish, err := listen.DecodeSQLWaiter(payload)
		if want == "" {
			require.NoError(t, err, payload)
			continue
		}
		require.ErrorContains(t, err, want, payload)
		require.Zero(t, wish)
	}
}

func FuzzDecodeWish(f *testing.F) {
	f.Add(`["orders","billing",null]`)
	f.Add(`["orders","billing","7"]`)
	f.Fuzz(func(t *testing.T, payload string) {
		wish, err := listen.DecodeSQLWaiter(payload)
		if err != nil {
			require.Zero(t, wish)
			return
		}
		require.NotEmpty(t, wish.Queue)
		require.NotEmpty(t, wish.Group)
		require.Len(t, wish.Channel, 39)
		require.NotContains(t, wish.Queue+wish.Group, "\x00")
	})
}

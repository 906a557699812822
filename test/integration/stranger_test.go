package integration_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// stranger connects as a role without rights in the schema belfry.
func stranger(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn := producer(t, dsn)
	execute(t, conn, `SET SESSION AUTHORIZATION pg_signal_backend`)
	_, err := conn.Exec(t.Context(), `SELECT belfry.await('q')`)
	require.ErrorContains(t, err, "permission denied for schema belfry")
	return conn
}

// A role without rights sends more forged SQL waiters than an instance stores. SQL waiters that register later must still
// be notified.
func TestForgedSQLWaitersDoNotDisplaceOthers(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c := s.client(t)
	execute(t, stranger(t, s.dsn), `SELECT count(pg_notify('belfry_await', format('["forged %s","g",null]', i))) FROM generate_series(1, 10500) i`)
	for i := range 3 {
		consumer, name := newSQLConsumer(t, s.dsn, "g"), fmt.Sprint("q", i)
		consumer.drained(name)
		c.pushIDs(name, "", "m")
		consumer.waitForWake()
		require.Equal(t, "m", consumer.next(name))
	}
}

// A role without rights listens on all channels and claims to be a watcher, while instances, SQL sessions and watchers
// work. The payloads that it receives must not contain a name of a queue, group or partition, not even in base64.
func TestNotificationsRevealNoNames(t *testing.T) {
	t.Parallel()
	here := start(t, proven)
	there := startOn(t, here.dsn, proven)
	here.untilProven(t, 0)
	there.untilProven(t, 0)
	ears := stranger(t, here.dsn)
	channels := []string{listen.Channel, listen.AwaitChannel, listen.LiveChannel, listen.InboxChannel, listen.TokensChannel, listen.SettingsChannel, listen.SchedulesChannel, queue.AwaitAgainChannel}
	for _, channel := range channels {
		execute(t, ears, "LISTEN "+channel)
	}
	execute(t, ears, fmt.Sprintf(`NOTIFY %s, '{"v":1,"i":"%s","watch":true,"hello":true}'`, listen.LiveChannel, queue.NewID()))
	watching := here.openStream(t, watchEvents())
	watching.until("snapshot")
	c, consumer := there.client(t), newSQLConsumer(t, here.dsn, "secret group")
	consumer.drained("secret queue")
	execute(t, consumer.conn, `SELECT belfry.await('secret queue', 'secret group', 'secret partition')`)
	c.pushIDs("secret queue", "secret partition", "one", "two")
	watching.until("queue.created", "secret queue")
	watching.until("rates", "secret queue")
	require.Equal(t, "one", consumer.next("secret queue"))
	execute(t, consumer.conn, `SELECT belfry.push('secret queue', '1', 'secret partition')`)
	c.pop("secret queue", "consumerGroup=other").ok(http.StatusOK)
	watching.until("group.created", "secret queue")

	heard := map[string]int{}
	execute(t, consumer.conn, `SELECT pg_notify($1, 'the end')`, listen.Channel)
	for ended := false; !ended; {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		n, err := ears.WaitForNotification(ctx)
		cancel()
		require.NoError(t, err)
		ended = n.Payload == "the end"
		heard[n.Channel]++
		for _, text := range append(decodings(n.Payload), n.Payload) {
			require.NotContains(t, text, "secret", "%s: %s", n.Channel, n.Payload)
		}
	}
	for _, channel := range []string{listen.Channel, listen.AwaitChannel, listen.LiveChannel} {
		require.Greater(t, heard[channel], 1, "%s: %v", channel, heard)
	}
}

// The database gets another key, as after a restore. The servers must load the new key. They must ask the SQL waiters to
// register again, because the servers missed registrations meanwhile.
func TestServersLoadANewKey(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c, consumer := s.client(t), newSQLConsumer(t, s.dsn, "g")
	c.exec(`UPDATE belfry.channel_key SET key = DEFAULT`)
	consumer.drained("q")
	require.Equal(t, queue.AwaitAgainChannel, consumer.waitForWake().Channel)
	consumer.drained("q")
	c.pushIDs("q", "", "m")
	consumer.waitForWake()
	require.Equal(t, "m", consumer.next("q"))
}

// decodings returns the base64 decodings of a payload.
func decodings(payload string) (texts []string) {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if text, err := encoding.DecodeString(strings.TrimSpace(payload)); err == nil {
			texts = append(texts, string(text))
		}
	}
	return texts
}

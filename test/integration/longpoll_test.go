package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// The server must answer a waiting pop a little before the timeout of the pop, because the client may use the same timeout.
func TestWaitingPopIsAnsweredBeforeItsTimeout(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("q", nil).ok(http.StatusOK)
	const timeout = 3 * time.Second
	watch := stopwatch.Start(t)
	got := c.pop("q", fmt.Sprintf("wait=true&timeout=%d", timeout.Milliseconds()))
	watch.Within(t, timeout, "time until a pop without a message is answered")
	require.Equal(t, http.StatusNoContent, got.Status)
	require.Empty(t, got.Raw)
	require.Greater(t, got.Took, timeout-timeout/10)
}

func TestClientThatDisconnectsWhileWaiting(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("q", nil).ok(http.StatusOK)
	const rounds = 5
	for i := range rounds {
		waiting := c.begin(popCall("q", "wait=true&timeout=60000"))
		c.untilWaiting(1)
		waiting.leave()
		require.ErrorIs(t, waiting.err, context.Canceled)
		c.untilWaiting(0)
		c.pushIDs("q", "", fmt.Sprint(i))
		got := c.pop("q", "").ok(http.StatusOK)
		require.Equal(t, []string{fmt.Sprint(i)}, got.ids(), "the next pop must get the message at once")
		require.Equal(t, 1, got.Messages[0].Attempt)
		c.ackBatch("", got.ack("completed")...).ok(http.StatusOK)
	}
}

// The client disconnects while its pop waits for a row lock. The pop then takes a lease. The answer is larger than the
// buffers of a new connection, so the server notices that the client did not receive it.
func TestClientThatDisconnectsDuringTheClaim(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	c.configure("q", nil).ok(http.StatusOK)
	require.Empty(t, c.popIDs("q", ""), "the first pop only creates the group")
	c.push(item{Queue: "q", TransactionID: "m", Payload: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}).ok(http.StatusCreated)

	// The other session locks the cursor. A pop waits for that lock and does not answer that there is no message.
	rival, err := pgx.Connect(t.Context(), s.dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, rival.Close(context.WithoutCancel(t.Context()))) }()
	_, err = rival.Exec(t.Context(), `BEGIN; SELECT 1 FROM belfry.cursor FOR UPDATE`)
	require.NoError(t, err)

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.base, "http://"))
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", popCall("q", "").Target)
	require.NoError(t, err)
	until(t, "the pop waits for the lock", func() bool {
		var blocked bool
		s.scan(t, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`, nil, &blocked)
		return blocked
	})
	require.NoError(t, conn.Close())
	_, err = rival.Exec(t.Context(), `ROLLBACK`)
	require.NoError(t, err)

	got := c.pop("q", "wait=true&timeout=20000").ok(http.StatusOK)
	require.Equal(t, []string{"m"}, got.ids(), "the server must have released the lease")
	require.Equal(t, 1, got.Messages[0].Attempt, "a delivery that was not received must not count as an attempt")
}

func TestTooManyWaitingRequests(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *config.Config) { cfg.Dispatch.MaxIntentions = 2 }).client(t)
	c.pushIDs("ready", "", "1")
	c.configure("q", nil).ok(http.StatusOK)
	first := c.begin(popCall("q", "wait=true&timeout=60000"))
	c.begin(popCall("other", "wait=true&timeout=60000"))
	c.untilWaiting(2)

	over := c.pop("q", "wait=true&timeout=60000")
	require.Equal(t, http.StatusServiceUnavailable, over.Status)
	require.Contains(t, []string{"1", "2", "3"}, over.Header.Get("Retry-After"))
	require.Equal(t, "this consumer group has used up its part of the caller's waiting requests (dispatch.max_intentions); send the request again", over.failure)
	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status, "a pop without wait must be served")
	require.Equal(t, http.StatusServiceUnavailable, c.pop("ready", "wait=true&timeout=60000").Status, "a request with wait=true must count before its first probe")
	require.Equal(t, []string{"1"}, c.popIDs("ready", ""), "a pop without wait must get the message")

	c.pushIDs("q", "", "2")
	require.Equal(t, []string{"2"}, first.delivery().ok(http.StatusOK).ids(), "waiting requests must not be affected")
	c.untilWaiting(1)
	again := c.begin(popCall("q", "wait=true&timeout=60000"))
	c.untilWaiting(2)
	again.leave()
	c.untilWaiting(1)
}

func TestStopAnswersWaitingPops(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	c.configure("q", nil).ok(http.StatusOK)
	var waiting []*pendingCall
	for range 5 {
		waiting = append(waiting, c.begin(popCall("q", "wait=true&timeout=300000")))
	}
	c.untilWaiting(len(waiting))
	watch := stopwatch.Start(t)
	require.NoError(t, s.stop(t))
	// net/http closes a connection without a request after 5 s.
	watch.Within(t, 10*time.Second, "time of the stop; it must not wait for the timeouts of the pops")
	for _, one := range waiting {
		got := one.delivery()
		require.Equal(t, http.StatusNoContent, got.Status)
		require.Empty(t, got.Raw)
	}
	_, err := s.send(t.Context(), popCall("q", ""))
	require.Error(t, err, "a stopped server must not answer")
}

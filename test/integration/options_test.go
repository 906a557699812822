package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	goclient "github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// two starts two instances on the same database.
func two(t *testing.T) (here, there client) {
	t.Helper()
	dsn := pgtest.Database(t)
	return startOn(t, dsn).client(t), startOn(t, dsn).client(t)
}

// exec runs a SQL statement. Tests use it for changes that no endpoint makes.
func (c client) exec(query string, args ...any) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.dsn)
	require.NoError(c.t, err)
	_, err = conn.Exec(c.t.Context(), query, args...)
	require.NoError(c.t, conn.Close(c.t.Context()))
	require.NoError(c.t, err)
}

// crash ends every lease, as after a crash of the consumers.
func (c client) crash() {
	c.t.Helper()
	c.exec(`UPDATE belfry.cursor SET lease_until = statement_timestamp(), ready_at = statement_timestamp() WHERE lease_id IS NOT NULL`)
}

// elapse simulates that time passes for a queue. It moves the times of its messages and partitions into the past, and ends
// the leases and delays that would end in that time. Waiting pops do not notice it.
func (c client) elapse(queue string, by time.Duration) {
	c.t.Helper()
	c.exec(`WITH places AS (
	    UPDATE belfry.partition p SET last_push_at = p.last_push_at - $2::interval, visible_until = p.visible_until - $2::interval
	      FROM belfry.queue q WHERE q.id = p.queue_id AND q.name = $1 RETURNING p.id
	), messages AS (
	    UPDATE belfry.message m SET created_at = m.created_at - $2::interval, visible_at = m.visible_at - $2::interval
	      FROM places p WHERE p.id = m.partition_id
	)
	UPDATE belfry.cursor c SET lease_until = c.lease_until - $2::interval, retry_at = c.retry_at - $2::interval,
	       ready_at = CASE WHEN c.ready_at > now() THEN greatest(now(), c.ready_at - $2::interval) ELSE c.ready_at END
	  FROM places p WHERE p.id = c.partition_id`, queue, by)
}

// A delayed message must be delivered in time to waiting pops at any instance. It delays the messages after it in its
// partition.
func TestAPushedItemMayBeDelayed(t *testing.T) {
	t.Parallel()
	const delay = 600 * time.Millisecond
	here, there := two(t)
	here.push(item{Queue: "q", TransactionID: "1", DelaySeconds: 3600}, item{Queue: "q", TransactionID: "2"}).ok(http.StatusCreated)
	require.Empty(t, here.popIDs("q", ""), "the delayed message must delay the second message")

	first := map[string]func() item{
		"for a time":       func() item { return item{DelaySeconds: delay.Seconds()} },
		"until an instant": func() item { return item{VisibleAt: time.Now().Add(delay).Format(time.RFC3339Nano)} },
	}
	var waiting []*pendingCall
	for queue := range first {
		there.configure(queue, nil).ok(http.StatusOK)
		for i, query := range []string{"batch=9&wait=true&timeout=60000", "batch=9&wait=true&timeout=60000&autoAck=true"} {
			for at, c := range map[string]client{"here": here, "there": there} {
				waiting = append(waiting, c.begin(popCall(queue, fmt.Sprintf("%s&consumerGroup=%s%d", query, at, i))))
			}
		}
	}
	here.untilWaiting(len(waiting) / 2)
	there.untilWaiting(len(waiting) / 2)
	watch := stopwatch.Start(t)
	for queue, delayed := range first {
		one := delayed()
		one.Queue, one.TransactionID = queue, "1"
		here.push(one, item{Queue: queue, TransactionID: "2"},
			item{Queue: queue, TransactionID: "3", VisibleAt: time.Now().Add(-time.Hour).Format(time.RFC3339)}).ok(http.StatusCreated)
	}
	for _, one := range waiting {
		require.Equal(t, []string{"1", "2", "3"}, one.delivery().ok(http.StatusOK).ids())
		require.GreaterOrEqual(t, watch.Elapsed(), delay)
	}
	watch.Within(t, delay+3*time.Second, "time until delayed messages are delivered")
}

// retryDelay must delay a failed message, also across a restart. A waiting pop must then receive the message.
func TestRetryDelayIsKept(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	first := startOn(t, dsn)
	c := first.client(t)
	c.configure("q", map[string]any{"retryDelay": time.Hour.Milliseconds()}).ok(http.StatusOK)
	c.configure("plain", map[string]any{"retryDelay": 0}).ok(http.StatusOK)
	for _, queue := range []string{"plain", "q"} {
		c.pushIDs(queue, "", "1")
		d := c.pop(queue, "").ok(http.StatusOK)
		require.True(t, c.ackBatch("", d.ack("failed")...).ok(http.StatusOK)[0].released())
	}
	require.Equal(t, []string{"1"}, c.popIDs("plain", ""), "retryDelay 0 must delay nothing")
	require.Empty(t, c.popIDs("q", ""))
	require.NoError(t, first.stop(t))

	c = startOn(t, dsn).client(t)
	require.Empty(t, c.popIDs("q", ""))
	c.elapse("q", 2*time.Hour)
	d := c.pop("q", "").ok(http.StatusOK)
	require.Equal(t, 2, d.Messages[0].Attempt)
	c.configure("q", map[string]any{"retryDelay": 300}).ok(http.StatusOK)
	began := time.Now()
	require.True(t, c.ackBatch("", d.ack("failed")...).ok(http.StatusOK)[0].released())
	d = c.pop("q", "wait=true&timeout=60000").ok(http.StatusOK)
	require.Greater(t, time.Since(began), 450*time.Millisecond, "the second delay must be twice retryDelay, minus at most a fifth")
	require.Equal(t, 3, d.Messages[0].Attempt)
	c.ackBatch("", d.ack("retry")...).ok(http.StatusOK)
	d = c.pop("q", "").ok(http.StatusOK)
	require.Equal(t, []string{"1"}, d.ids(), "the status retry must delay nothing")
	again := d.ack("retry")
	again[0].RetryAfter = 3600
	c.ackBatch("", again...).ok(http.StatusOK)
	require.Empty(t, c.popIDs("q", ""), "the status retry with retryAfter must delay the message")
}

// The handler of a queue with default options fails for a minute. No message may become a dead letter. After the minute all
// messages must be handled.
func TestAMinuteOfFailuresLosesNothing(t *testing.T) {
	t.Parallel()
	defaults := config.Default().Defaults
	s := start(t, func(cfg *config.Config) { cfg.Defaults = defaults })
	c := s.client(t)
	const messages, outage = 50, time.Minute
	for i := range messages {
		c.pushIDs("q", fmt.Sprint(i), fmt.Sprint(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	var handled, failures atomic.Int64
	err := goclient.Consume(ctx, goClient(t, s), goclient.ConsumeOptions{Queue: "q", Group: "g", Concurrency: 4, Batch: 10, Partitions: 10},
		func(context.Context, *goclient.Message[json.RawMessage]) error {
			if time.Since(began) < outage {
				failures.Add(1)
				return errors.New("a service that the handler needs is unavailable")
			}
			if handled.Add(1) == messages {
				cancel()
			}
			return nil
		})
	require.NoError(t, err)
	require.Equal(t, int64(messages), handled.Load())
	require.LessOrEqual(t, failures.Load(), messages*defaults.RetryLimit, "there must be pauses between the attempts")
	var dead int
	s.scan(t, `SELECT count(*) FROM belfry.dead_letter`, nil, &dead)
	require.Zero(t, dead)
}

package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// two starts two instances on one database.
func two(t *testing.T) (here, there client) {
	t.Helper()
	dsn := pgtest.Database(t)
	return startOn(t, dsn).client(t), startOn(t, dsn).client(t)
}

// exec runs a SQL statement, for changes that no endpoint makes.
func (c client) exec(query string, args ...any) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.dsn)
	require.NoError(c.t, err)
	_, err = conn.Exec(c.t.Context(), query, args...)
	require.NoError(c.t, conn.Close(c.t.Context()))
	require.NoError(c.t, err)
}

// crash ends every lease, as if the consumers had crashed.
func (c client) crash() {
	c.t.Helper()
	c.exec(`UPDATE belfry.cursor SET lease_until = statement_timestamp(), ready_at = statement_timestamp() WHERE lease_id IS NOT NULL`)
}

func TestConfigureWarnsAndReturnsItsOptions(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	sent := map[string]any{"expireAfterSeconds": 5.0, "deadLetterExpired": true, "maxDeliveries": 0.0, "retryDelay": 7.0}
	got := c.configure("q", sent).ok(http.StatusOK)
	for name, value := range sent {
		require.Equal(t, value, got.Options[name], name)
	}
	require.Empty(t, got.Warnings)
	warned := c.loose().configure("q", map[string]any{"leastime": 5, "deadLetterQueue": false}).ok(http.StatusOK)
	require.Len(t, warned.Warnings, 2)
	require.Contains(t, warned.Warnings[0], "did you mean leaseTime?")
	require.NotContains(t, warned.Options, "expireAfterSeconds")
}

// A delayed message is delivered in time to waiting pops on any instance, and delays the messages after it in its
// partition.
func TestAPushedItemMayBeDelayed(t *testing.T) {
	t.Parallel()
	here, there := two(t)
	for _, query := range []string{"batch=9&wait=true&timeout=60000", "batch=9&wait=true&timeout=60000&autoAck=true"} {
		queue := "delayed " + query
		there.configure(queue, nil).ok(http.StatusOK)
		waiting := []*pendingCall{here.begin(popCall(queue, query)), there.begin(popCall(queue, query+"&consumerGroup=there"))}
		here.untilWaiting(1)
		there.untilWaiting(1)
		began := time.Now()
		here.push(
			item{Queue: queue, TransactionID: "1", DelaySeconds: 1.2}, item{Queue: queue, TransactionID: "2"},
			item{Queue: queue, TransactionID: "3", VisibleAt: began.Add(-time.Hour).Format(time.RFC3339)},
		).ok(http.StatusCreated)
		require.Empty(t, here.popIDs(queue, "consumerGroup=another"), "the first message delays the others")
		for _, one := range waiting {
			require.Equal(t, []string{"1", "2", "3"}, one.delivery().ok(http.StatusOK).ids())
			requireBetween(t, 1200*time.Millisecond, time.Since(began))
		}
	}
	began := time.Now()
	here.push(item{Queue: "instant", TransactionID: "1", VisibleAt: began.Add(time.Second).Format(time.RFC3339Nano)}).ok(http.StatusCreated)
	require.Equal(t, []string{"1"}, there.popIDs("instant", "wait=true&timeout=60000"))
	requireBetween(t, time.Second, time.Since(began))
}

// retryDelay delays a failed message, also over a restart. Waiting pops receive it in time.
func TestRetryDelayIsKept(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	first := startOn(t, dsn)
	c := first.client(t)
	c.configure("q", map[string]any{"retryDelay": 2000}).ok(http.StatusOK)
	c.configure("plain", map[string]any{"retryLimit": 3}).ok(http.StatusOK)
	var began time.Time
	for _, queue := range []string{"plain", "q"} {
		c.pushIDs(queue, "", "1")
		d := c.pop(queue, "").ok(http.StatusOK)
		began = time.Now()
		require.True(t, c.ackBatch("", d.ack("failed")...).ok(http.StatusOK)[0].released())
	}
	require.Equal(t, []string{"1"}, c.popIDs("plain", ""), "the default retryDelay delays nothing")
	require.Empty(t, c.popIDs("q", ""))
	require.NoError(t, first.stop(t))

	c = startOn(t, dsn).client(t)
	d := c.pop("q", "wait=true&timeout=60000").ok(http.StatusOK)
	require.Equal(t, []string{"1"}, d.ids())
	requireBetween(t, 1500*time.Millisecond, time.Since(began))
	require.Equal(t, 2, d.Messages[0].Attempt)
	c.ackBatch("", d.ack("retry")...).ok(http.StatusOK)
	require.Equal(t, []string{"1"}, c.popIDs("q", ""), "the status retry delays nothing")
}

// If a consumer never acknowledges, one message becomes a dead letter, and the others are delivered.
func TestMaxDeliveriesEndsACrashLoop(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("q", map[string]any{"maxDeliveries": 2, "retryLimit": 0}).ok(http.StatusOK)
	c.pushIDs("q", "", "deadly", "2", "3")
	require.Equal(t, []string{"deadly", "2", "3"}, c.popIDs("q", "batch=9"))
	c.crash()
	require.Equal(t, []string{"deadly"}, c.popIDs("q", "batch=9"), "alone")
	c.crash()
	for _, id := range []string{"2", "3"} {
		d := c.pop("q", "batch=9").ok(http.StatusOK)
		require.Equal(t, []string{id}, d.ids(), "the messages of the failed batch are delivered one by one")
		require.True(t, c.ackBatch("", d.ack("completed")...).ok(http.StatusOK)[0].Success)
	}
	c.pushIDs("q", "", "4", "5")
	require.Equal(t, []string{"4", "5"}, c.popIDs("q", "batch=9"))
	var letters []string
	c.scan(t, `SELECT array_agg(m.transaction_id || ': ' || d.error) FROM belfry.dead_letter d
		JOIN belfry.message m ON m.partition_id = d.partition_id AND m.seq = d.seq`, nil, &letters)
	require.Equal(t, []string{"deadly: delivered 2 times without success (maxDeliveries)"}, letters)
	require.InDelta(t, 1, c.metric(t, "belfry_messages_given_up_total"), 0)
}

func TestMaxSizeOfTwoInstances(t *testing.T) {
	t.Parallel()
	here, there := two(t)
	here.pushIDs("q", "", "1")
	there.pushIDs("q", "", "2")
	here.configure("q", map[string]any{"maxSize": 3}).ok(http.StatusOK)
	there.pushIDs("q", "", "3")
	for _, c := range []client{there, here} {
		full := c.push(item{Queue: "other", TransactionID: "4"}, item{Queue: "q", TransactionID: "4"})
		require.Equal(t, http.StatusTooManyRequests, full.Status, "%s", full.Raw)
		require.Contains(t, full.failure, `queue "q" is full: its maxSize is 3`)
		require.Equal(t, "1", full.Header.Get("Retry-After"))
	}
	var n int
	here.scan(t, `SELECT count(*) FROM belfry.message`, nil, &n)
	require.Equal(t, 3, n, "a refused request stores nothing")
	require.Len(t, here.popIDs("q", "batch=2&autoAck=true"), 2)
	until(t, "the queue has room again", func() bool {
		return there.push(item{Queue: "q", TransactionID: "4"}).Status == http.StatusCreated
	})
}

func TestExpiredMessagesOverHTTP(t *testing.T) {
	t.Parallel()
	here, there := two(t)
	here.configure("q", map[string]any{"expireAfterSeconds": 60, "deadLetterExpired": true}).ok(http.StatusOK)
	there.pushIDs("q", "", "old", "new")
	here.exec(`UPDATE belfry.message SET created_at = created_at - interval '1 hour' WHERE transaction_id = 'old'`)
	require.Equal(t, []string{"new"}, there.popIDs("q", "batch=9&wait=true&timeout=60000"))
	require.InDelta(t, 1, there.metric(t, "belfry_messages_expired_total"), 0)
	var reason string
	here.scan(t, `SELECT error FROM belfry.dead_letter`, nil, &reason)
	require.Equal(t, "expired after 60 s", reason)
}

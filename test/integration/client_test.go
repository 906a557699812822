package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/contract"
)

// client sends requests to one server for one test.
type client struct {
	t *testing.T
	*server
	unlike bool
}

func (s *server) client(t *testing.T) client { return client{t: t, server: s} }

// loose returns a client for requests that the OpenAPI document does not describe but the server accepts.
func (c client) loose() client {
	c.unlike = true
	return c
}

// answer is a reply with its decoded body, or with the text of its error.
type answer[T any] struct {
	t *testing.T
	reply
	body    T
	failure string
}

func ask[T any](c client, what call) answer[T] {
	c.t.Helper()
	ctx := c.t.Context()
	if c.unlike {
		ctx = contract.Unlike(ctx)
	}
	got, err := c.send(ctx, what)
	require.NoError(c.t, err, "%s %s", what.Method, what.Target)
	return read[T](c.t, got)
}

func read[T any](t *testing.T, got reply) answer[T] {
	t.Helper()
	a := answer[T]{t: t, reply: got}
	body, failure, err := decode[T](got)
	require.NoError(t, err)
	a.body, a.failure = body, failure
	return a
}

// decode decodes the body of a reply. It may run on any goroutine.
func decode[T any](got reply) (body T, failure string, err error) {
	if len(got.Raw) == 0 {
		return body, "", nil
	}
	var refused struct {
		Error *string `json:"error"`
	}
	if got.Status >= http.StatusBadRequest && json.Unmarshal(got.Raw, &refused) == nil && refused.Error != nil {
		failure = *refused.Error
		if !strings.Contains(string(got.Raw), "leaseId") {
			return body, failure, nil
		}
	}
	if err := json.Unmarshal(got.Raw, &body); err != nil {
		return body, failure, fmt.Errorf("status %d with %.200q: %w", got.Status, got.Raw, err)
	}
	return body, failure, nil
}

// ok requires a status and returns the body.
func (a answer[T]) ok(status int) T {
	a.t.Helper()
	require.Equal(a.t, status, a.Status, "%.500s", a.Raw)
	return a.body
}

// refused requires status 400 with exactly this error text.
func (a answer[T]) refused(text string) {
	a.t.Helper()
	require.Equal(a.t, http.StatusBadRequest, a.Status, "%.500s", a.Raw)
	require.Equal(a.t, text, a.failure)
}

func (c client) push(items ...item) answer[[]pushed] {
	c.t.Helper()
	return ask[[]pushed](c, pushCall(items...))
}

// pushIDs pushes messages with the given transaction ids to one partition.
func (c client) pushIDs(queue, partition string, ids ...string) []pushed {
	c.t.Helper()
	items := make([]item, len(ids))
	for i, id := range ids {
		items[i] = item{Queue: queue, Partition: partition, TransactionID: id}
	}
	return c.push(items...).ok(http.StatusCreated)
}

func (c client) pop(queue, query string) answer[delivery] {
	c.t.Helper()
	return ask[delivery](c, popCall(queue, query))
}

// popIDs pops and returns the transaction ids of the messages. For status 204 it returns none.
func (c client) popIDs(queue, query string) []string {
	c.t.Helper()
	got := c.pop(queue, query)
	require.Contains(c.t, []int{http.StatusOK, http.StatusNoContent}, got.Status, "%.500s", got.Raw)
	return got.body.ids()
}

func (c client) popPartition(queue, partition, query string) answer[delivery] {
	c.t.Helper()
	return ask[delivery](c, popPartitionCall(queue, partition, query))
}

func (c client) ack(one ackItem) answer[[]acked] {
	c.t.Helper()
	return ask[[]acked](c, ackCall(one))
}

func (c client) ackBatch(group string, items ...ackItem) answer[[]acked] {
	c.t.Helper()
	return ask[[]acked](c, ackBatchCall(group, items...))
}

func (c client) extend(lease, body string) answer[extension] {
	c.t.Helper()
	return ask[extension](c, extendCall(lease, body))
}

func (c client) configure(queue string, options map[string]any) answer[configured] {
	c.t.Helper()
	return ask[configured](c, configureCall(queue, options))
}

func (c client) deleteQueue(queue string) answer[deleted] {
	c.t.Helper()
	return ask[deleted](c, deleteCall(queue))
}

// pendingCall is a call that runs in the background.
type pendingCall struct {
	t      *testing.T
	done   chan struct{}
	reply  reply
	err    error
	cancel context.CancelFunc
}

// begin sends a call in the background. The end of the test cancels the call.
func (c client) begin(what call) *pendingCall {
	ctx, cancel := context.WithCancel(c.t.Context())
	b := &pendingCall{t: c.t, done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(b.done)
		b.reply, b.err = c.send(ctx, what)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-b.done
	})
	return b
}

// ends waits for the end of a call that does not wait for messages.
func (b *pendingCall) ends() {
	b.t.Helper()
	receive(b.t, b.done, "the call is answered")
}

// longestWait is longer than a pop of the tests waits for messages.
const longestWait = 3 * time.Minute

// delivery waits for the answer to a pop.
func (b *pendingCall) delivery() answer[delivery] {
	b.t.Helper()
	receiveWithin(b.t, b.done, longestWait, "the pop is answered")
	require.NoError(b.t, b.err)
	return read[delivery](b.t, b.reply)
}

// leave cancels the call, as a client does that disconnects.
func (b *pendingCall) leave() {
	b.cancel()
	<-b.done
}

// untilWaiting blocks until the server reports n waiting requests.
func (c client) untilWaiting(n int) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("%d requests wait", n), func() bool {
		health := ask[struct{ Waiting int }](c, get("/health"))
		return health.body.Waiting == n
	})
}

// storedQueue reports whether a queue exists. It reads the table, because a request could create or delete the queue.
func (c client) storedQueue(name string) (exists bool) {
	c.t.Helper()
	c.scan(c.t, `SELECT EXISTS (SELECT 1 FROM belfry.queue WHERE name = $1 AND deleted_at IS NULL)`, []any{name}, &exists)
	return exists
}

// putToSleep puts a queue with one unread partition into the state after a crash between a commit and its wake: the
// partition has a message, but ready_at of the group's cursor is NULL.
func (c client) putToSleep(queue, group string) {
	c.t.Helper()
	found := c.pop(queue, "consumerGroup="+group)
	until(c.t, "ready_at of the cursor is NULL", func() bool { // a late wake may set ready_at again
		require.True(c.t, c.ackBatch(group, found.ok(http.StatusOK).ack("retry")...).ok(http.StatusOK)[0].Success)
		var asleep int
		c.scan(c.t, `WITH asleep AS (
		    UPDATE belfry.cursor c SET ready_at = NULL
		      FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
		     WHERE c.group_id = g.id AND q.name = $1 AND g.name = $2
		    RETURNING 1)
		SELECT count(*) FROM asleep`, []any{queue, group}, &asleep)
		require.Equal(c.t, 1, asleep)
		found = c.pop(queue, "consumerGroup="+group)
		return found.Status == http.StatusNoContent
	})
}

// metric returns the value of a metric with labels in the Prometheus format. It returns 0 if the metric is missing.
func (s *server) metric(t *testing.T, name string) float64 {
	t.Helper()
	got, err := s.send(t.Context(), get("/metrics/prometheus"))
	require.NoError(t, err)
	for line := range strings.Lines(string(got.Raw)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			return value
		}
	}
	return 0
}

//go:build installed

package integration_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pushOrders pushes three orders to one partition. The second order has no customer, so it fails. The queue allows one
// retry.
func (c client) pushOrders() {
	c.t.Helper()
	c.configure("orders", map[string]any{"retryLimit": 1}).ok(http.StatusOK)
	c.push(
		item{Queue: "orders", Partition: "p", TransactionID: "1", Payload: json.RawMessage(`{"id":1,"customer":"ada"}`)},
		item{Queue: "orders", Partition: "p", TransactionID: "2", Payload: json.RawMessage(`{"id":2}`)},
		item{Queue: "orders", Partition: "p", TransactionID: "3", Payload: json.RawMessage(`{"id":3,"customer":"bob"}`)},
	).ok(http.StatusCreated)
}

// TestExampleNode runs the example in node. It needs Node (`make examples`).
func TestExampleNode(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	e := startExample(c, "node", "node/consumer.mjs")
	c.untilWaiting(1)
	began := time.Now()
	c.pushOrders()
	e.prints("mail to ada: order 1")
	e.prints("failed: order 2 has no customer")
	e.prints("failed: order 2 has no customer")
	require.GreaterOrEqual(t, time.Since(began), time.Second, "the consumer asks for a pause of 1 s before the retry")
	e.prints("mail to bob: order 3")
	require.Equal(t, []string{"2"}, c.dlq("consumerGroup=mailer").ids())
	c.untilWaiting(1)
	e.stop("stopped")
}

// TestExampleSQL runs the example in sql. It needs psql and Bash (`make examples`).
func TestExampleSQL(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("orders", nil).ok(http.StatusOK)
	e := startExample(c, "sql/worker.sh")
	until(t, "the worker has drained the queue and waits", func() (waits bool) {
		c.scan(t, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT;')`, nil, &waits)
		return waits
	})
	began := time.Now()
	c.pushOrders()
	const failure = `NOTICE:  failed {"id":2}: null value in column "customer" of relation "customer_orders" violates not-null constraint`
	e.prints(`NOTICE:  counted {"id":1,"customer":"ada"}`)
	e.prints(failure)
	e.prints(failure)
	require.GreaterOrEqual(t, time.Since(began), time.Second, "the consumer asks for a pause of 1 s before the retry")
	e.prints(`NOTICE:  counted {"id":3,"customer":"bob"}`)
	require.Equal(t, []string{"2"}, c.dlq("consumerGroup=counter").ids())
	e.stop("stopped")
	var counted int
	c.scan(t, `SELECT sum(orders) FROM customer_orders`, nil, &counted)
	require.Equal(t, 2, counted)
}

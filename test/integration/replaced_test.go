package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// TestSchemaCreatedAgain drops the schema while two servers run, and creates it again.
func TestSchemaCreatedAgain(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	survivesReplacement(t, dsn, func() {
		whenFree(t, dsn, `DROP SCHEMA belfry CASCADE`)
		require.NoError(t, migrate.New(migrate.Config{URL: dsn}, nil).Up(t.Context()))
	})
}

// TestTablesTruncated truncates the tables while two servers run, and restarts the id sequences.
func TestTablesTruncated(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	survivesReplacement(t, dsn, func() {
		whenFree(t, dsn, `TRUNCATE belfry.message, belfry.queue, belfry.cursor RESTART IDENTITY CASCADE`)
	})
}

// TestFailoverToAStandbyThatLagged kills the primary and promotes a standby that lacks the last commits.
func TestFailoverToAStandbyThatLagged(t *testing.T) {
	t.Parallel()
	primary, standby := pgtest.OwnCluster(t), pgtest.OwnCluster(t)
	require.NoError(t, primary.CreateDatabase(t.Context(), "failover"))
	require.NoError(t, migrate.New(migrate.Config{URL: primary.URL("failover")}, nil).Up(t.Context()))
	require.NoError(t, pgtest.Follow(t.Context(), primary, standby))
	require.NoError(t, pgtest.Forsake(t.Context(), primary, standby))
	hosts := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", primary.Port(), standby.Port())
	survivesReplacement(t, "postgres://postgres@"+hosts+"/failover?sslmode=disable&target_session_attrs=read-write", func() {
		require.NoError(t, primary.Kill())
		require.NoError(t, pgtest.Promote(t.Context(), standby))
	})
}

// survivesReplacement lets two servers cache the ids of queues, partitions and groups. replace then replaces the database
// with an earlier state that has none of them. Afterwards the same ids are assigned in another order. Every message must be
// delivered from its own queue and partition, also to pops that waited before.
func survivesReplacement(t *testing.T, dsn string, replace func()) {
	t.Helper()
	first, second := startOn(t, dsn).client(t), startOn(t, dsn).client(t)
	for _, c := range []client{first, second} {
		for _, at := range []struct{ queue, partition string }{{"orders", "a"}, {"invoices", "b"}} {
			c.pushIDs(at.queue, at.partition, "before")
			c.popIDs(at.queue, "consumerGroup=g&autoAck=true&batch=10")
		}
	}
	waitForOrders := popCall("orders", "consumerGroup=g&wait=true&timeout=60000&autoAck=true")
	waitForInvoices := popCall("invoices", "consumerGroup=g&wait=true&timeout=60000&autoAck=true")
	orders, invoices := second.begin(waitForOrders), second.begin(waitForInvoices)
	second.untilWaiting(2)

	replace()
	insist[[]pushed](first, pushCall(item{Queue: "invoices", Partition: "b", TransactionID: "1"})).ok(http.StatusCreated)
	require.Equal(t, []string{"1 in invoices, b"}, later(invoices, second, waitForInvoices).sources())
	insist[[]pushed](second, pushCall(item{Queue: "orders", Partition: "a", TransactionID: "2"})).ok(http.StatusCreated)
	require.Equal(t, []string{"2 in orders, a"}, later(orders, second, waitForOrders).sources())

	execute(t, producer(t, dsn), `INSERT INTO belfry.inbox (queue, partition, transaction_id, payload)
	                              VALUES ('orders', 'a', '3', '1'), ('invoices', 'b', '4', '1')`)
	for _, at := range []struct{ queue, want string }{{"orders", "3 in orders, a"}, {"invoices", "4 in invoices, b"}} {
		got := insist[delivery](first, popCall(at.queue, "consumerGroup=g&wait=true&timeout=20000")).ok(http.StatusOK)
		require.Equal(t, []string{at.want}, got.sources())
		require.True(t, insist[[]acked](second, ackBatchCall("g", got.ack("completed", 0)...)).ok(http.StatusOK)[0].Success)
		require.Equal(t, http.StatusNoContent, insist[delivery](second, popCall(at.queue, "consumerGroup=g")).Status)
	}
}

// whenFree runs a statement that locks tables exclusively. After a deadlock with the servers, it runs the statement again.
func whenFree(t *testing.T, dsn, statement string) {
	t.Helper()
	conn := producer(t, dsn)
	until(t, statement, func() bool {
		_, err := conn.Exec(t.Context(), statement)
		if state := postgres.SQLState(err); state != "40P01" {
			require.NoError(t, err)
			return true
		}
		return false
	})
}

// insist repeats a request while the database is unavailable.
func insist[T any](c client, what call) answer[T] {
	c.t.Helper()
	var got answer[T]
	until(c.t, "the database is available again", func() bool {
		got = ask[T](c, what)
		return got.Status != http.StatusServiceUnavailable
	})
	return got
}

// later returns the answer to a pop that began before the database was replaced. If the pop failed with 503, it pops again.
func later(began *pendingCall, c client, what call) delivery {
	c.t.Helper()
	got := began.delivery()
	if got.Status == http.StatusServiceUnavailable {
		got = insist[delivery](c, what)
	}
	return got.ok(http.StatusOK)
}

// sources returns a text for each message: its transaction id, queue and partition.
func (d delivery) sources() []string {
	var all []string
	for _, m := range d.Messages {
		all = append(all, fmt.Sprintf("%s in %s, %s", m.TransactionID, d.Queue, m.Partition))
	}
	return all
}

package integration_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// TestAFencedPrimary makes a primary read only, as in a planned switchover, and promotes its standby. The connections to
// the old primary stay open, and the old primary still answers. If a server kept using it, the server would refuse each
// push and would miss the pushes of other servers.
func TestAFencedPrimary(t *testing.T) {
	t.Parallel()
	primary, standby := replicated(t)
	require.NoError(t, primary.CreateDatabase(t.Context(), "fenced"))
	hosts := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", primary.Port(), standby.Port())
	dsn := "postgres://postgres@" + hosts + "/fenced?sslmode=disable&target_session_attrs=read-write"
	soon := func(c *config.Config) {
		c.Database.RequestTimeout = 2 * time.Second
		c.Listen.CanaryInterval, c.Listen.CanaryTimeout = time.Second, time.Second
	}
	s := startOn(t, dsn, soon)
	c := s.client(t)
	c.pushIDs("q", "p", "0")
	require.Equal(t, []string{"0"}, c.popIDs("q", "consumerGroup=g&autoAck=true"))
	wait := popCall("q", "consumerGroup=g&wait=true&timeout=60000&autoAck=true")
	waiting := c.begin(wait)
	c.untilWaiting(1)
	// Two waiting pops of one group only run a read-only preflight until there is a message.
	others := startOn(t, dsn, soon).client(t)
	others.popIDs("q", "consumerGroup=others&autoAck=true&subscriptionMode=new") // now the cursor of the group exists
	wanted := popCall("q", "consumerGroup=others&wait=true&timeout=60000&autoAck=true&subscriptionMode=new")
	both := []*pendingCall{others.begin(wanted), others.begin(wanted)}
	others.untilWaiting(2)

	fence(t, primary)
	require.NoError(t, pgtest.Promote(t.Context(), standby))
	insist[[]pushed](c, pushCall(item{Queue: "q", Partition: "p", TransactionID: "1"})).ok(http.StatusCreated)
	require.Equal(t, []string{"1"}, later(waiting, c, wait).ids())
	until(t, "one of the two pops receives the message", func() bool {
		for i, one := range both {
			select {
			case <-one.done:
			default:
				continue
			}
			got := one.delivery()
			if got.Status != http.StatusServiceUnavailable {
				require.Equal(t, []string{"1"}, got.ok(http.StatusOK).ids())
				return true
			}
			both[i] = others.begin(wanted)
		}
		return false
	})

	for n := 2; n < 5; n++ {
		waiting = c.begin(wait)
		c.untilWaiting(1)
		began := time.Now()
		execute(t, producer(t, dsn), `INSERT INTO belfry.inbox (queue, partition, transaction_id, payload) VALUES ('q', 'p', $1, '1')`, fmt.Sprint(n))
		require.Equal(t, []string{fmt.Sprint(n)}, later(waiting, c, wait).ids())
		t.Logf("an inserted row was delivered after %s", time.Since(began).Round(time.Millisecond))
	}
}

// fence makes all new transactions read only.
func fence(t *testing.T, cluster *devdb.Cluster) {
	t.Helper()
	conn := producer(t, cluster.URL("postgres"))
	execute(t, conn, `ALTER SYSTEM SET default_transaction_read_only = on`)
	execute(t, conn, `SELECT pg_reload_conf()`)
	until(t, "transactions are read only", func() bool {
		var readOnly string
		require.NoError(t, conn.QueryRow(t.Context(), `SHOW transaction_read_only`).Scan(&readOnly))
		return readOnly == "on"
	})
}

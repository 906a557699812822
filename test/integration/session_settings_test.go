package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// TestADatabaseWithForeignSettings runs Belfry in a database with settings for other programs. Two instances push to one
// partition at the same time, so their transactions wait for each other.
func TestADatabaseWithForeignSettings(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	pgtest.Set(t, dsn, pgtest.ForeignSettings())
	s, other := startOn(t, dsn, proven), startOn(t, dsn, proven)
	const clients, each = 8, 20
	pushTogether(t, clients, each, s, other)
	c := s.client(t)
	next := make([]int, clients)
	for popped := 0; popped < clients*each; {
		got := c.pop("q", "batch=7&autoAck=true&wait=true&timeout=20000").ok(http.StatusOK)
		for _, id := range got.ids() {
			var n, i int
			_, err := fmt.Sscanf(id, "ö-%d-%d", &n, &i)
			require.NoError(t, err)
			require.Equal(t, next[n], i, "the messages of client %d must be in order", n)
			next[n]++
		}
		popped += len(got.Messages)
	}

	quiet := c.begin(anyOf("q"))
	s.untilParked(t, "q", 1)
	inSQL := producer(t, dsn+"&client_encoding=UTF8&options=-c%20idle_session_timeout%3D0")
	execute(t, inSQL, `INSERT INTO belfry.inbox (queue, payload) VALUES ('q', '1')`)
	require.Len(t, quiet.delivery().ok(http.StatusOK).Messages, 1)

	execute(t, inSQL, `SELECT belfry.await('ö', 'g')`)
	c.pushIDs("ö", "", "1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := inSQL.WaitForNotification(ctx)
	require.NoError(t, err)
	require.Zero(t, s.metric(t, "belfry_listener_reconnects_total"))
}

// pushTogether lets several clients push to the queue "q" at the same time. Each client uses one of the servers. Client n
// pushes the messages "ö-n-0", "ö-n-1" and so on, in this order.
func pushTogether(t *testing.T, clients, each int, servers ...*server) {
	t.Helper()
	var pushers sync.WaitGroup
	for n := range clients {
		pushers.Go(func() {
			for i := range each {
				got, err := servers[n%len(servers)].send(t.Context(), pushCall(item{Queue: "q", TransactionID: fmt.Sprintf("ö-%d-%d", n, i)}))
				if err != nil || got.Status != http.StatusCreated {
					t.Errorf("push: %v, %s", err, got.Raw)
				}
			}
		})
	}
	pushers.Wait()
}

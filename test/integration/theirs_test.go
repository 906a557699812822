package integration_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// TestADatabaseWithSettingsOfItsOwn runs Belfry beside a team that has set its
// database to what suits its own programs: two instances push to one partition at
// once, so that their transactions wait for each other.
func TestADatabaseWithSettingsOfItsOwn(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	pgtest.Set(t, dsn, pgtest.Theirs())
	s, other := startOn(t, dsn, proven), startOn(t, dsn, proven)
	const clients, each = 8, 20
	var crew sync.WaitGroup
	for n := range clients {
		to := []*server{s, other}[n%2]
		crew.Go(func() {
			for i := range each {
				got, err := to.send(t.Context(), pushCall(item{Queue: "q", TransactionID: fmt.Sprintf("ö-%d-%d", n, i)}))
				if err != nil || got.status != http.StatusCreated {
					t.Errorf("push: %v, %s", err, got.raw)
				}
			}
		})
	}
	crew.Wait()
	c := s.client(t)
	next := make([]int, clients)
	for popped := 0; popped < clients*each; {
		got := c.pop("q", "batch=7&autoAck=true&wait=true&timeout=20000").ok(http.StatusOK)
		for _, id := range got.ids() {
			var n, i int
			_, err := fmt.Sscanf(id, "ö-%d-%d", &n, &i)
			require.NoError(t, err)
			require.Equal(t, next[n], i, "of client %d", n)
			next[n]++
		}
		popped += len(got.Messages)
	}

	quiet := c.begin(anyOf("q"))
	s.untilParked(t, "q", 1)
	execute(t, producer(t, dsn+"&options=-c%20idle_session_timeout%3D0"), `INSERT INTO belfry.inbox (queue, payload) VALUES ('q', '1')`)
	require.Len(t, quiet.delivery().ok(http.StatusOK).Messages, 1)
	require.Zero(t, s.metric(t, "belfry_listener_reconnects_total"))
}

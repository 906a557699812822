package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// all sends calls at the same time and returns the decoded answers. Each answer must have the given status.
func all[T any](t *testing.T, servers []*server, status int, calls []call) []T {
	t.Helper()
	bodies := make([]T, len(calls))
	var group errgroup.Group
	gate := make(chan struct{})
	for i, what := range calls {
		group.Go(func() error {
			<-gate
			got, err := servers[i%len(servers)].send(t.Context(), what)
			if err != nil {
				return err
			}
			if got.Status != status {
				return fmt.Errorf("%s %s (call %d): status %d instead of %d: %s", what.Method, what.Target, i, got.Status, status, got.Raw)
			}
			bodies[i], _, err = decode[T](got)
			return err
		})
	}
	close(gate)
	require.NoError(t, group.Wait())
	return bodies
}

// Ten pops of ten ready partitions must make ten deliveries in each of 50 rounds. A pop that loses the race for a partition
// must find another one.
func TestTenPoppersTenPartitions(t *testing.T) {
	t.Parallel()
	first := start(t)
	servers := []*server{first, startOn(t, first.dsn)}
	c := first.client(t)
	const partitions, rounds = 10, 50
	pops := make([]call, partitions)
	for i := range pops {
		pops[i] = popCall("q", "consumerGroup=g")
	}
	for round := range rounds {
		items := make([]item, partitions)
		for i := range items {
			items[i] = item{Queue: "q", Partition: fmt.Sprint(i), TransactionID: fmt.Sprint(round)}
		}
		c.push(items...).ok(http.StatusCreated)
		delivered, acks := map[string]bool{}, []ackItem{}
		for _, d := range all[delivery](t, servers, http.StatusOK, pops) {
			require.Equal(t, []string{fmt.Sprint(round)}, d.ids())
			delivered[d.Partition] = true
			acks = append(acks, d.ack("completed")...)
		}
		require.Len(t, delivered, partitions, "no partition may be delivered twice")
		require.Empty(t, c.popIDs("q", "consumerGroup=g"))
		for _, one := range c.ackBatch("g", acks...).ok(http.StatusOK) {
			require.True(t, one.Success, one.reason())
		}
	}
}

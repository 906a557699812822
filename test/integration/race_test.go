package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// all sends calls at the same time and returns the decoded answers, which must have the given status.
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

// Fifty pushes with one transaction id to two instances: one is stored, and all get its id.
func TestConcurrentPushesOfOneTransaction(t *testing.T) {
	t.Parallel()
	first := start(t)
	servers := []*server{first, startOn(t, first.dsn)}
	for round := range 5 {
		id := fmt.Sprint(round)
		calls := make([]call, 50)
		for i := range calls {
			calls[i] = pushCall(item{Queue: "q", TransactionID: id})
		}
		statuses, winners := map[string]int{}, map[string]bool{}
		for _, results := range all[[]pushed](t, servers, http.StatusCreated, calls) {
			require.Len(t, results, 1)
			statuses[results[0].Status]++
			winners[results[0].MessageID] = true
		}
		require.Equal(t, map[string]int{"queued": 1, "duplicate": 49}, statuses)
		require.Len(t, winners, 1, "all answers have the id of the stored message")
		got := first.client(t).pop("q", "batch=100&autoAck=true").ok(http.StatusOK)
		require.Equal(t, []string{id}, got.ids())
		require.True(t, winners[got.Messages[0].ID])
	}
}

// Ten ready partitions and ten pops: ten deliveries, every time. A pop that loses the race for one partition finds
// another.
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
		require.Len(t, delivered, partitions, "no partition is delivered twice")
		require.Empty(t, c.popIDs("q", "consumerGroup=g"))
		for _, one := range c.ackBatch("g", acks...).ok(http.StatusOK) {
			require.True(t, one.Success, one.reason())
		}
	}
}

// Producers and consumers at the same time: each message is delivered, in the order of its partition, and only once if
// no consumer fails.
func TestPushPopAckTogether(t *testing.T) {
	t.Parallel()
	first := start(t)
	servers := []*server{first, startOn(t, first.dsn)}
	const producers, each, partitions = 4, 60, 3
	var group errgroup.Group
	for p := range producers {
		group.Go(func() error {
			for i := range each {
				got, err := servers[i%2].send(t.Context(), pushCall(item{
					Queue: "q", Partition: fmt.Sprint(i % partitions), TransactionID: fmt.Sprintf("%d %d", p, i),
				}))
				if err != nil {
					return err
				}
				if got.Status != http.StatusCreated {
					return fmt.Errorf("pushing: status %d: %s", got.Status, got.Raw)
				}
			}
			return nil
		})
	}
	deliveries := make(chan message, producers*each*2)
	consumers, reading := errgroup.WithContext(t.Context())
	reading, finish := context.WithCancel(reading)
	defer finish()
	var left atomic.Int64
	left.Store(producers * each)
	for n := range 3 {
		consumers.Go(func() error { return consume(reading, servers[n%2], deliveries, &left, finish) })
	}
	require.NoError(t, group.Wait())
	require.NoError(t, consumers.Wait())
	close(deliveries)
	require.Empty(t, first.client(t).popIDs("q", "batch=100&partitions=10"))

	seen, last := map[string]bool{}, map[string]int{}
	for m := range deliveries {
		require.False(t, seen[m.TransactionID], "%s was delivered twice", m.TransactionID)
		seen[m.TransactionID] = true
		var producer, number int
		_, err := fmt.Sscan(m.TransactionID, &producer, &number)
		require.NoError(t, err)
		key := fmt.Sprint(producer, m.Partition)
		require.Greater(t, number+1, last[key], "partition %s lost its order", m.Partition)
		last[key] = number + 1
	}
	require.Len(t, seen, producers*each)
}

// consume pops and acknowledges until no message is left; then it calls finish, which ends the others. It writes messages
// before their ack, so later messages of the partition follow them.
func consume(ctx context.Context, s *server, deliveries chan<- message, left *atomic.Int64, finish func()) error {
	for {
		got, err := s.send(ctx, popCall("q", "batch=7&wait=true&timeout=30000"))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		d, failure, err := decode[delivery](got)
		switch {
		case err != nil:
			return err
		case got.Status == http.StatusNoContent:
			continue
		case got.Status != http.StatusOK:
			return fmt.Errorf("popping: status %d: %s", got.Status, failure)
		}
		for _, m := range d.Messages {
			deliveries <- m
		}
		acked, err := s.send(context.WithoutCancel(ctx), ackBatchCall("", d.ack("completed")...))
		if err != nil {
			return err
		}
		if acked.Status != http.StatusOK {
			return fmt.Errorf("acknowledging: status %d: %s", acked.Status, acked.Raw)
		}
		if left.Add(-int64(len(d.Messages))) <= 0 {
			finish()
		}
	}
}

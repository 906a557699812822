package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// load is what the clients of a server have observed so far.
type load struct {
	mu sync.Mutex
	// stored counts messages answered with 201. done counts completed messages. held are deliveries whose ack got no
	// answer.
	stored, done map[string]int
	held         []delivery
	answered     atomic.Int64
}

// TestStopUnderLoad stops a server as SIGTERM does, while requests push, wait and acknowledge. Every stored message must be
// completed once. Each remaining lease must be known to a client.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.client(t).configure("q", map[string]any{"leaseTime": 3600}).ok(http.StatusOK)
	l := &load{stored: map[string]int{}, done: map[string]int{}}
	var clients errgroup.Group
	for i := range 4 {
		clients.Go(func() error { return l.produce(t.Context(), s, fmt.Sprint(i)) })
	}
	for range 8 {
		clients.Go(func() error { return l.consume(t.Context(), s) })
	}
	until(t, "300 requests are answered", func() bool { return l.answered.Load() >= 300 })
	require.NoError(t, s.stop(t))
	require.NoError(t, clients.Wait())

	c := startOn(t, s.dsn).client(t)
	var leases int
	c.scan(t, `SELECT count(DISTINCT lease_id) FROM belfry.cursor WHERE lease_until > now()`, nil, &leases)
	require.Len(t, l.held, leases, "each remaining lease must be known to a client")
	for _, d := range l.held {
		for _, one := range c.ackBatch("", d.ack("completed")...).ok(http.StatusOK) {
			require.True(t, one.Success, one.reason())
		}
		l.finish(d)
	}
	for {
		ids := c.popIDs("q", "batch=1000&partitions=100&autoAck=true")
		if len(ids) == 0 {
			break
		}
		for _, id := range ids {
			l.done[id]++
		}
	}
	require.NotEmpty(t, l.stored)
	for id := range l.stored {
		require.Equal(t, 1, l.done[id], "message %s was stored once, so it must be completed once", id)
	}
}

// produce pushes until the server refuses a push or has stopped.
func (l *load) produce(ctx context.Context, s *server, name string) error {
	for i := 0; ; i++ {
		id := fmt.Sprint(name, ".", i)
		got, err := s.send(ctx, pushCall(item{Queue: "q", Partition: fmt.Sprint(i % 20), TransactionID: id}))
		switch {
		case err != nil || got.Status == http.StatusServiceUnavailable:
			return nil // the server is stopping
		case got.Status != http.StatusCreated:
			return fmt.Errorf("pushing: status %d: %s", got.Status, got.Raw)
		}
		l.answered.Add(1)
		l.mu.Lock()
		l.stored[id]++
		l.mu.Unlock()
	}
}

// consume waits for messages and acknowledges them until the server has stopped.
func (l *load) consume(ctx context.Context, s *server) error {
	for {
		got, err := s.send(ctx, popCall("q", "batch=5&wait=true&timeout=60000"))
		switch {
		case err != nil || got.Status == http.StatusServiceUnavailable:
			return nil
		case got.Status == http.StatusNoContent:
			continue
		case got.Status != http.StatusOK:
			return fmt.Errorf("popping: status %d: %s", got.Status, got.Raw)
		}
		d, _, err := decode[delivery](got)
		if err != nil {
			return err
		}
		got, err = s.send(ctx, ackBatchCall("", d.ack("completed")...))
		switch {
		case err != nil || got.Status == http.StatusServiceUnavailable:
			l.mu.Lock()
			l.held = append(l.held, d)
			l.mu.Unlock()
			return nil
		case got.Status != http.StatusOK:
			return fmt.Errorf("acknowledging: status %d: %s", got.Status, got.Raw)
		}
		l.answered.Add(1)
		l.mu.Lock()
		l.finish(d)
		l.mu.Unlock()
	}
}

func (l *load) finish(d delivery) {
	for _, id := range d.ids() {
		l.done[id]++
	}
}

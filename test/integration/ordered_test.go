package integration_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// orderedMessages is the number of messages in the one partition. 100,000 take minutes: go test ./test/integration -run
// TestOnePartitionTenConsumers -timeout 60m -ordered.messages=100000
var orderedMessages = flag.Int("ordered.messages", 1500, "messages of TestOnePartitionTenConsumers")

// Ten consumers with batch 1 and manual acks read one partition while it is filled: every message is delivered once, in
// the order of the pushes.
func TestOnePartitionTenConsumers(t *testing.T) {
	t.Parallel()
	const consumers, eachPush = 10, 100
	s := start(t)
	c := s.client(t)
	n := *orderedMessages
	c.configure("q", nil).ok(http.StatusOK)
	began := time.Now()
	work, ctx := errgroup.WithContext(t.Context())
	work.Go(func() error {
		for from := 0; from < n; from += eachPush {
			items := make([]item, min(eachPush, n-from))
			for i := range items {
				items[i] = item{Queue: "q", TransactionID: fmt.Sprint(from + i)}
			}
			got, err := s.send(ctx, pushCall(items...))
			if err == nil && got.Status != http.StatusCreated {
				err = fmt.Errorf("pushing: status %d: %s", got.Status, got.Raw)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	reading, finish := context.WithCancel(ctx)
	defer finish()
	// next passes the number of the next message between the consumers.
	next := make(chan int, 1)
	next <- 0
	for range consumers {
		work.Go(func() error {
			err := consumeInOrder(reading, s, n, next, finish)
			if reading.Err() != nil {
				return nil // this or another consumer got the last message, or another one returned the failure
			}
			return err
		})
	}
	require.NoError(t, work.Wait())
	require.Equal(t, n, <-next)
	t.Logf("%d messages in %s", n, time.Since(began).Round(time.Millisecond))
	require.Empty(t, c.popIDs("q", ""))
	var committed, attempts int
	s.scan(t, `SELECT committed, attempts FROM belfry.cursor`, nil, &committed, &attempts)
	require.Equal(t, n, committed)
	require.Zero(t, attempts)
}

// consumeInOrder pops one message at a time, compares its number with the one in next, and acknowledges it. It returns an
// error, or nil after it called finish for the last message. next holds a number at every return, so it blocks no other
// consumer.
func consumeInOrder(ctx context.Context, s *server, n int, next chan int, finish func()) error {
	for {
		got, err := s.send(ctx, popCall("q", "wait=true&timeout=30000"))
		if err != nil {
			return err
		}
		d, failure, err := decode[delivery](got)
		switch {
		case err != nil:
			return err
		case got.Status == http.StatusNoContent:
			continue
		case got.Status != http.StatusOK || len(d.Messages) != 1:
			return fmt.Errorf("popping: status %d: %s", got.Status, failure)
		}
		expected := <-next
		if id, attempt := d.ids()[0], d.Messages[0].Attempt; id != fmt.Sprint(expected) || attempt != 1 {
			next <- expected
			return fmt.Errorf("message %s was delivered at attempt %d: want message %d at attempt 1", id, attempt, expected)
		}
		// next gets the number before the ack, because the next delivery may follow the ack at once.
		next <- expected + 1
		got, err = s.send(context.WithoutCancel(ctx), ackCall(d.ack("completed")[0]))
		if err != nil {
			return err
		}
		results, _, err := decode[[]acked](got)
		if err != nil {
			return fmt.Errorf("acknowledging: status %d: %s: %w", got.Status, got.Raw, err)
		}
		if got.Status != http.StatusOK || !results[0].Success || !results[0].released() {
			return fmt.Errorf("acknowledging: status %d: %s", got.Status, got.Raw)
		}
		if expected == n-1 {
			finish()
			return nil
		}
	}
}

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

// fill pushes n messages to a partition. The transaction id of a message is "partition-number", and its payload is the number.
func fill(t *testing.T, c *client.Client, partition string, n int) {
	t.Helper()
	items := make([]client.Item, n)
	for i := range items {
		items[i] = client.Item{Queue: "orders", Partition: partition, Payload: i, TransactionID: fmt.Sprint(partition, "-", i)}
	}
	_, err := c.PushMany(t.Context(), items)
	require.NoError(t, err)
}

var orders = client.ConsumeOptions{Queue: "orders", Group: "billing"}

func TestPartitionsAreHandledInOrderAndInParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		for p := range 4 {
			fill(t, c, fmt.Sprint(p), 25)
		}
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		next, running, most, all := map[string]int{}, 0, 0, 0
		options := orders
		options.Concurrency, options.Batch, options.Partitions = 3, 10, 2
		began := time.Now()
		err := client.Consume(ctx, c, options, func(_ context.Context, m *client.Message[int]) error {
			mu.Lock()
			running++
			most = max(most, running)
			expected := next[m.Partition]
			next[m.Partition]++
			all++
			if all == 100 {
				stop()
			}
			mu.Unlock()
			if m.Data != expected {
				t.Errorf("got message %d of partition %s, want %d", m.Data, m.Partition, expected)
			}
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 100, all)
		require.Equal(t, 3, most)
		require.Len(t, b.acked(), 100)
		require.Less(t, time.Since(began), 6*time.Second)
	})
}

// The result of a handler decides the status. A failed message and all later messages of its partition are delivered again.
func TestResultsOfHandlersBecomeStatuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 7)
		_, err := c.Push(t.Context(), client.Item{Queue: "orders", Partition: "p", TransactionID: "p-7", Payload: "no number"})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var seen []string
		down := true
		err = client.Consume(ctx, c, orders, func(_ context.Context, m *client.Message[int]) error {
			seen = append(seen, fmt.Sprint(m.Data, ".", m.Attempt))
			switch {
			case m.Data == 1 && m.Attempt == 1:
				return errors.New("not yet")
			case m.Data == 2 && m.Attempt == 2:
				return client.RetryLater(errors.New("later"))
			case m.Data == 3:
				return fmt.Errorf("wrapped: %w", client.DeadLetter(errors.New("never")))
			case m.Data == 4 && m.Attempt < 4:
				panic("broken")
			case m.Data == 5 && down:
				down = false
				return client.PauseGroup(30*time.Second, errors.New("the bank is down"))
			case m.Data == 6:
				time.AfterFunc(time.Second, stop)
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"p-0 completed", "p-1 failed"}, b.acked()[:2])
		statuses := map[string]int{}
		for _, ack := range b.acked() {
			statuses[ack]++
		}
		require.Equal(t, 1, statuses["p-2 retry"])
		require.Equal(t, 1, statuses["p-3 dlq"])
		require.Equal(t, 1, statuses["p-5 retry pause 30"])
		require.Positive(t, statuses["p-4 failed"])
		require.Positive(t, statuses["p-7 failed"], "a payload that does not fit fails")
		require.Zero(t, statuses["p-7 completed"])
		require.Equal(t, 1, statuses["p-6 completed"])
		require.Equal(t, "0.1 1.1 1.1", fmt.Sprint(seen[0], " ", seen[1], " ", seen[2]), seen)
	})
}

// A failure that exceeds the retryLimit does not end the lease of the later messages. The consumer releases the lease.
func TestFailureReleasesTheLeaseOfTheMessagesAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 3)
		b.intercept = func(r *http.Request, body []byte) (int, http.Header, string) {
			if r.URL.Path == "/api/v1/ack/batch" {
				require.Contains(t, string(body), `"transactionId":"p-1"`)
				require.Contains(t, string(body), `"status":"retry"`)
				return 500, nil, `{"error":"seen"}`
			}
			return 0, nil, ""
		}
		ctx, stop := context.WithCancel(t.Context())
		err := client.Consume(ctx, c, orders, func(context.Context, *client.Message[int]) error {
			stop()
			return errors.New("broken")
		})
		require.NoError(t, err)
		require.Equal(t, 1, b.count("ack/batch"))
	})
}

func TestLeaseIsExtendedWhileAHandlerWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		b.leaseTime = time.Second
		c := connect(t, b)
		fill(t, c, "p", 2)
		ctx, stop := context.WithCancel(t.Context())
		err := client.Consume(ctx, c, orders, func(ctx context.Context, m *client.Message[int]) error {
			time.Sleep(5 * time.Minute)
			if m.Data == 1 {
				stop()
			}
			return ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, []string{"p-0 completed", "p-1 completed"}, b.acked())
		require.InDelta(t, 30, b.count("extend"), 3, "every 20 of 600 seconds")
	})
}

func TestLostLeaseEndsTheContextOfTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 2)
		ctx, stop := context.WithCancel(t.Context())
		var seen []int
		err := client.Consume(ctx, c, orders, func(ctx context.Context, m *client.Message[int]) error {
			seen = append(seen, m.Data)
			if len(seen) == 1 {
				b.endLeases()
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), client.ErrLeaseLost)
				return nil // a handler may ignore the end of its context
			}
			if m.Data == 1 {
				stop()
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []int{0, 0, 1}, seen, "the remaining messages of the lost lease are not handled")
		require.Equal(t, []string{"p-0 completed", "p-1 completed"}, b.acked())
	})
}

// When the context ends, the running handler finishes. The consumer acknowledges the handled messages, and releases the others at
// once.
func TestStopFinishesAndReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 5)
		ctx, stop := context.WithCancel(t.Context())
		err := client.Consume(ctx, c, orders, func(ctx context.Context, m *client.Message[int]) error {
			if m.Data == 1 {
				stop()
				time.Sleep(10 * time.Second)
			}
			return ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, []string{"p-0 completed", "p-1 completed", "p-2 retry"}, b.acked())
		rest, err := c.Pop(t.Context(), client.PopOptions{Queue: "orders", Batch: 10})
		require.NoError(t, err)
		require.Equal(t, "p-2", rest[0].TransactionID)
	})
}

func TestGraceEndsTheHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 1)
		ctx, stop := context.WithCancel(t.Context())
		options := orders
		options.Grace = 3 * time.Second
		began := time.Now()
		err := client.Consume(ctx, c, options, func(ctx context.Context, _ *client.Message[int]) error {
			stop()
			<-ctx.Done()
			return ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, []string{"p-0 retry"}, b.acked(), "no failure is counted")
	})
}

// If the messages of a pop take long, the consumer acknowledges finished messages every second.
func TestFinishedMessagesAreAcknowledgedWhileOthersAreHandled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 10)
		ctx, stop := context.WithCancel(t.Context())
		err := client.Consume(ctx, c, orders, func(_ context.Context, m *client.Message[int]) error {
			if m.Data == 9 {
				synctest.Wait()
				require.GreaterOrEqual(t, len(b.acked()), 6)
				stop()
			}
			time.Sleep(600 * time.Millisecond)
			return nil
		})
		require.NoError(t, err)
		require.Len(t, b.acked(), 10)
	})
}

func TestConsumeWaitsForServersAndEndsWhenRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := newBroker()
		b.intercept = func(*http.Request, []byte) (int, http.Header, string) {
			if time.Since(began) < time.Hour {
				return 503, nil, ""
			}
			return 403, nil, `{"error":"Insufficient permissions"}`
		}
		options := orders
		options.Concurrency = 3
		err := client.Consume(t.Context(), connect(t, b), options, func(context.Context, *client.Message[int]) error { return nil })
		require.ErrorIs(t, err, client.ErrForbidden)
		require.InDelta(t, 3600, time.Since(began).Seconds(), 10)
		require.Less(t, b.count("GET"), 3*3000, "the pauses grow")
	})
}

func TestMessagesYieldsAndCompletes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 6)
		var seen []int
		for message, err := range client.Messages[int](t.Context(), c, orders) {
			require.NoError(t, err)
			seen = append(seen, message.Data)
			if message.Data == 1 {
				message.Settle(client.DeadLetter(errors.New("never")))
			}
			if message.Data == 3 {
				break
			}
		}
		require.Equal(t, []int{0, 1, 2, 3}, seen)
		require.Equal(t, []string{"p-0 completed", "p-1 dlq", "p-2 completed", "p-3 retry"}, b.acked())
		for message, err := range client.Messages[int](t.Context(), c, orders) {
			require.NoError(t, err)
			message.Settle(nil)
			break
		}
		require.True(t, slices.Contains(b.acked(), "p-3 completed"), "a settled message is not released")

		b.intercept = func(*http.Request, []byte) (int, http.Header, string) { return 403, nil, "" }
		var failure error
		for _, err := range client.Messages[int](t.Context(), c, orders) {
			failure = err
		}
		require.ErrorIs(t, failure, client.ErrForbidden)
	})
}

func TestHandlersPassTheTraceIDOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		const trace = "4bf92f35-77b3-4da6-a3ce-929d0e0e4736"
		_, err := c.Push(client.WithTraceID(t.Context(), trace), client.Item{Queue: "orders"})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		err = client.Consume(ctx, c, orders, func(ctx context.Context, _ *client.Message[any]) error {
			stop()
			_, err := c.Push(ctx, client.Item{Queue: "invoices", Partition: "other"})
			return err
		})
		require.NoError(t, err)
		require.Equal(t, trace, b.partitions[1].messages[0].TraceID)
	})
}

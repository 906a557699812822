package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

// If the result of a dead letter's acknowledgment is unknown, the message is delivered again. No later message is completed before.
func TestMessagesAfterAnUncertainDeadLetterWait(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"error": 500, "invalid": 400, "unavailable": 503, "lost answer": lostAnswer, "refused": 200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker()
				c := connect(t, b, func(o *client.Config) { o.RetryFor = -1 })
				fill(t, c, "p", 4)
				fill(t, c, "other", 2)
				failures := 0
				b.intercept = func(_ *http.Request, body []byte) (int, http.Header, string) {
					if !strings.Contains(string(body), `"status":"dlq"`) || failures == 3 {
						return 0, nil, ""
					}
					failures++
					return code, nil, `[{"success":true},{"success":false,"error":"Invalid or expired lease"}]`
				}
				ctx, stop := context.WithCancel(t.Context())
				began := time.Now()
				var seen []string
				options := orders
				options.Partitions = 2
				err := client.Consume(ctx, c, options, func(_ context.Context, m *client.Message[int]) error {
					seen = append(seen, m.TransactionID)
					switch {
					case m.Partition == "p" && m.Data == 1:
						return client.DeadLetter(errors.New("never"))
					case m.Partition == "p" && m.Data == 3:
						time.AfterFunc(time.Second, stop)
					}
					return nil
				})
				require.NoError(t, err)
				require.Equal(t, 3, failures)
				if code != 200 {
					require.GreaterOrEqual(t, time.Since(began), 3*time.Second, "there is a pause before each repetition")
				}
				acked := slices.DeleteFunc(b.acked(), func(ack string) bool { return strings.HasSuffix(ack, "retry") })
				acked = slices.DeleteFunc(acked, func(ack string) bool { return strings.HasPrefix(ack, "other") })
				require.Equal(t, "p-1 dlq", acked[slices.IndexFunc(acked, func(ack string) bool { return !strings.HasPrefix(ack, "p-0") })],
					"no later message is completed before the dead letter, in %v", acked)
				require.Contains(t, acked, "p-3 completed")
				require.Contains(t, b.acked(), "other-1 completed", "the messages of another partition are handled")
				require.Less(t, slices.Index(seen, "p-1"), slices.Index(seen, "p-2"))
			})
		})
	}
}

// A refusal ends the delivery, even if it arrives only when the consumer sends the next acknowledgments.
func TestALateRefusalEndsTheDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 4)
		var seen []int
		var again atomic.Bool
		b.intercept = func(_ *http.Request, body []byte) (int, http.Header, string) {
			if again.Load() || !strings.Contains(string(body), "completed") {
				return 0, nil, ""
			}
			time.Sleep(time.Second)
			return 200, nil, `[{"success":false,"error":"Invalid or expired lease"}]`
		}
		ctx, stop := context.WithCancel(t.Context())
		err := client.Consume(ctx, c, orders, func(_ context.Context, m *client.Message[int]) error {
			seen = append(seen, m.Data)
			if len(seen) == 3 {
				again.Store(true)
				stop()
			}
			time.Sleep(3 * time.Second / 2)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 0}, seen)
	})
}

// The server limits the number of acknowledgments in a request. If it refuses a whole request because of one acknowledgment, only
// that acknowledgment and the later acknowledgments of its submission are not applied.
func TestRequestsWithAcknowledgmentsAreLimitedAndDivided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		fill(t, c, "p", 2500)
		fill(t, c, "other", 10)
		var refused bool
		var most, large int
		b.intercept = func(r *http.Request, body []byte) (int, http.Header, string) {
			if r.URL.Path != "/api/v1/ack/batch" {
				return 0, nil, ""
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			n := strings.Count(string(body), `"transactionId"`)
			most = max(most, n)
			switch {
			case n > 1000:
				large++
				return 413, nil, ""
			case strings.Contains(string(body), `"transactionId":"p-2400"`) && !refused:
				refused = n == 1
				return 400, nil, ""
			}
			return 0, nil, ""
		}
		ctx, stop := context.WithCancel(t.Context())
		options := orders
		options.Batch, options.Concurrency = 2500, 2
		var mu sync.Mutex
		handled := map[string]int{}
		err := client.Consume(ctx, c, options, func(_ context.Context, m *client.Message[int]) error {
			mu.Lock()
			defer mu.Unlock()
			handled[m.TransactionID]++
			if len(handled) == 2510 {
				time.AfterFunc(10*time.Minute, stop)
			}
			return nil
		})
		require.NoError(t, err)
		require.LessOrEqual(t, most, 2010)
		require.Positive(t, large)
		require.Len(t, handled, 2510)
		var twice []string
		for id, times := range handled {
			if times > 1 {
				twice = append(twice, id)
			}
		}
		require.Len(t, twice, 100)
		require.True(t, slices.Contains(twice, "p-2400"))
		require.True(t, slices.Contains(b.acked(), "p-2400 completed"))
		require.True(t, slices.Contains(b.acked(), "p-2499 completed"))
	})
}

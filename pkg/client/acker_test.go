package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

// A dead letter whose acknowledgment is not certain comes again, and no message after it is completed before.
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
				acked := slices.DeleteFunc(b.acked(), func(ack string) bool { return strings.HasSuffix(ack, "retry") })
				acked = slices.DeleteFunc(acked, func(ack string) bool { return strings.HasPrefix(ack, "other") })
				require.Equal(t, "p-1 dlq", acked[slices.IndexFunc(acked, func(ack string) bool { return !strings.HasPrefix(ack, "p-0") })],
					"nothing after it is completed before, in %v", acked)
				require.Contains(t, acked, "p-3 completed")
				require.Contains(t, b.acked(), "other-1 completed", "another partition goes on")
				require.Less(t, slices.Index(seen, "p-1"), slices.Index(seen, "p-2"))
			})
		})
	}
}

// The server bounds the acknowledgments of a request. If it refuses a request as a whole, only the bad one is not applied.
func TestRequestsWithAcknowledgmentsAreBoundedAndDivided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		c := connect(t, b)
		const partitions, each, configured = 2, 5000, 1000
		for p := range partitions {
			fill(t, c, fmt.Sprint("p", p), each)
		}
		var bad, most, large int
		b.intercept = func(r *http.Request, body []byte) (int, http.Header, string) {
			if r.URL.Path != "/api/v1/ack/batch" {
				return 0, nil, ""
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			n := strings.Count(string(body), `"transactionId"`)
			most = max(most, n)
			switch {
			case strings.Contains(string(body), `"transactionId":"p1-4999"`) && bad == 0:
				if n == 1 {
					bad++
				}
				return 400, nil, ""
			case n > configured:
				large++
				return 413, nil, ""
			}
			return 0, nil, ""
		}
		ctx, stop := context.WithCancel(t.Context())
		options := orders
		options.Batch, options.Concurrency = each, partitions
		handled := map[string]int{}
		var mu sync.Mutex
		err := client.Consume(ctx, c, options, func(_ context.Context, m *client.Message[int]) error {
			mu.Lock()
			defer mu.Unlock()
			handled[m.TransactionID]++
			if len(handled) == partitions*each {
				time.AfterFunc(10*time.Minute, stop)
			}
			return nil
		})
		require.NoError(t, err)
		require.Less(t, most, 4_000)
		require.Positive(t, large)
		require.Len(t, handled, partitions*each)
		twice := 0
		for _, times := range handled {
			if times > 1 {
				twice++
			}
		}
		require.Equal(t, 1, twice, "only the bad one comes again")
		require.True(t, slices.Contains(b.acked(), "p1-4999 completed"))
	})
}

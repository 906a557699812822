package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

func TestProducerSharesRequestsAndKeepsOrder(t *testing.T) {
	t.Parallel()
	b := newBroker()
	p := connect(t, b).NewProducer(client.ProducerOptions{})
	stored := 0
	for i := range 5000 {
		require.NoError(t, p.Push(t.Context(), client.Item{Queue: "orders", Payload: i}, func(_ client.PushResult, err error) {
			if err == nil {
				stored++
			}
		}))
	}
	require.NoError(t, p.Close(t.Context()))
	require.Equal(t, 5000, stored)
	require.Less(t, b.count("push"), 2500)
	for i, m := range b.partitions[0].messages {
		require.Equal(t, strconv.Itoa(i), string(m.Payload))
	}
	require.ErrorIs(t, p.Push(t.Context(), client.Item{Queue: "orders"}, nil), client.ErrClosed)
}

// The buffer has a limit. A push waits until the buffer has room or its context ends.
func TestProducerMemoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, open := newBroker(), make(chan struct{})
		b.intercept = func(r *http.Request, _ []byte) (int, http.Header, string) {
			select {
			case <-open:
			case <-r.Context().Done():
			}
			return 0, nil, ""
		}
		for _, options := range []client.ProducerOptions{{BufferItems: 3}, {BufferBytes: 3 * 102}} {
			p := connect(t, b).NewProducer(options)
			item := client.Item{Queue: "orders", Payload: strings.Repeat("x", 100)}
			for range 3 {
				require.NoError(t, p.Push(t.Context(), item, nil))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, p.Push(ctx, item, nil), context.DeadlineExceeded)
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, p.Close(ctx), context.DeadlineExceeded, "Close gives up when its context ends")
			cancel()
		}
		p := connect(t, b).NewProducer(client.ProducerOptions{BufferItems: 1})
		require.NoError(t, p.Push(t.Context(), client.Item{Queue: "orders"}, nil))
		time.AfterFunc(time.Second, func() { close(open) })
		_, err := p.PushWait(t.Context(), client.Item{Queue: "orders"})
		require.NoError(t, err, "there is room again")
		require.NoError(t, p.Close(t.Context()))
	})
}

func TestOnlyTheInvalidMessageFails(t *testing.T) {
	t.Parallel()
	b := newBroker()
	b.intercept = func(_ *http.Request, body []byte) (int, http.Header, string) {
		if strings.Contains(string(body), `"payload":"bad"`) {
			return 400, nil, `{"error":"bad"}`
		}
		return 0, nil, ""
	}
	p := connect(t, b).NewProducer(client.ProducerOptions{})
	failed := []int{}
	for i := range 50 {
		item := client.Item{Queue: "orders", Payload: i}
		if i == 33 {
			item.Payload = "bad"
		}
		require.NoError(t, p.Push(t.Context(), item, func(_ client.PushResult, err error) {
			if err != nil {
				failed = append(failed, i)
			}
		}))
	}
	require.NoError(t, p.Close(t.Context()))
	require.Equal(t, []int{33}, failed)
	require.Len(t, b.partitions[0].messages, 49)
}

// An item that cannot be encoded is refused before it shares a request with other messages.
func TestPayloadsThatAreNotJSONAreRefusedBeforeTheyAreSent(t *testing.T) {
	t.Parallel()
	b := newBroker()
	p := connect(t, b).NewProducer(client.ProducerOptions{})
	for _, bad := range []client.Item{
		{Queue: "orders", Payload: json.RawMessage(`{"a":`)}, {Queue: "orders", Payload: json.RawMessage("")},
		{Queue: "orders", Payload: json.RawMessage("1 2")}, {Queue: "orders", Payload: make(chan int)},
		{Queue: "orders", VisibleAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		require.ErrorIs(t, p.Push(t.Context(), bad, nil), client.ErrInvalid)
	}
	require.Zero(t, b.count("push"))
	for _, good := range []string{`{"a":1,"a":2}`, "\"\xff\"", `"\ud800"`, " null "} {
		require.NoError(t, p.Push(t.Context(), client.Item{Queue: "orders", Payload: json.RawMessage(good)}, nil))
	}
	require.NoError(t, p.Close(t.Context()))
	require.Len(t, b.partitions[0].messages, 4)
}

// A full queue does not delay or fail the other queues of the same request. Messages of one queue stay in order.
func TestOnlyTheFullQueueFails(t *testing.T) {
	t.Parallel()
	for _, retryFor := range []time.Duration{-1, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker()
			b.intercept = func(_ *http.Request, body []byte) (int, http.Header, string) {
				if strings.Contains(string(body), "first") {
					time.Sleep(time.Second) // the producer collects the other messages during this request
				}
				if strings.Contains(string(body), `"queue":"full"`) {
					return 429, http.Header{"Retry-After": {"1"}}, `{"error":"full"}`
				}
				return 0, nil, ""
			}
			p := connect(t, b, func(o *client.Config) { o.RetryFor = retryFor }).NewProducer(client.ProducerOptions{})
			began, failed := time.Now().Add(time.Second), 0
			require.NoError(t, p.Push(t.Context(), client.Item{Queue: "free", Payload: "first"}, nil))
			synctest.Wait()
			for i := range 30 {
				queue := []string{"free", "full", "other"}[i%3]
				item := client.Item{Queue: queue, Partition: queue, Payload: i}
				require.NoError(t, p.Push(t.Context(), item, func(_ client.PushResult, err error) {
					if queue == "full" {
						failed++
						assert.ErrorIs(t, err, client.ErrQueueFull)
						assert.InDelta(t, max(0, retryFor.Seconds()), time.Since(began).Seconds(), 8)
						return
					}
					assert.NoError(t, err)
					assert.Zero(t, time.Since(began), "the message does not wait for the full queue")
				}))
			}
			require.NoError(t, p.Close(t.Context()))
			require.Equal(t, 10, failed)
			for _, partition := range b.partitions[1:] {
				require.Len(t, partition.messages, 10)
				for i, m := range partition.messages[1:] {
					was, _ := strconv.Atoi(string(partition.messages[i].Payload))
					require.Equal(t, strconv.Itoa(was+3), string(m.Payload))
				}
			}
			if retryFor < 0 {
				require.Equal(t, 5, b.count("push"), "nothing is repeated")
			}
		})
	}
}

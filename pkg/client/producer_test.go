package client_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

func TestProducerSharesRequestsAndKeepsOrder(t *testing.T) {
	t.Parallel()
	b := newBroker()
	p := connect(t, b).NewProducer(client.ProducerOptions{})
	stored := 0
	for i := range 5000 {
		require.NoError(t, p.Push(t.Context(), client.Item{Queue: "orders", Payload: i}, func(_ client.Stored, err error) {
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

// The buffer has a limit. A push waits for room, and its context ends the wait.
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

func TestOneInvalidMessageFailsAlone(t *testing.T) {
	t.Parallel()
	b := newBroker()
	b.intercept = func(_ *http.Request, body []byte) (int, http.Header, string) {
		if strings.Contains(string(body), "bad") {
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
		require.NoError(t, p.Push(t.Context(), item, func(_ client.Stored, err error) {
			if err != nil {
				failed = append(failed, i)
			}
		}))
	}
	require.NoError(t, p.Close(t.Context()))
	require.Equal(t, []int{33}, failed)
	require.Len(t, b.partitions[0].messages, 49)
}

package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

func TestPopsNameAQueueOrANamespace(t *testing.T) {
	t.Parallel()
	b := newBroker()
	c := connect(t, b)
	for _, bad := range []client.PopOptions{
		{}, {Partition: "p"}, {Partition: "p", Task: "t"}, {Queue: "q", Namespace: "n"}, {Queue: "q", Task: "t"},
	} {
		_, err := c.Pop(t.Context(), bad)
		require.ErrorIs(t, err, client.ErrInvalid)
		err = client.Consume(t.Context(), c, client.ConsumeOptions{
			Queue: bad.Queue, Partition: bad.Partition, Namespace: bad.Namespace, Task: bad.Task,
		}, func(context.Context, *client.Message[any]) error { return nil })
		require.ErrorIs(t, err, client.ErrInvalid)
	}
	require.Zero(t, b.count("pop"))
	for _, good := range []client.PopOptions{{Queue: "q", Partition: "p"}, {Namespace: "n", Task: "t"}, {Task: "t"}} {
		_, err := c.Pop(t.Context(), good)
		require.NoError(t, err)
	}
}

// MarshalJSON encodes a message as the server sent it, and adds its queue.
func TestMessagesAreEncodedAsReceived(t *testing.T) {
	t.Parallel()
	b := newBroker()
	const message = `{"id":"m","transactionId":"t","traceId":null,"data":{"b":"<\u00e9>","a":1.50},"producerSub":null,` +
		`"createdAt":"2026-05-16T08:41:27.120000Z","partitionId":"i","partition":"p","leaseId":"","consumerGroup":"g","attempt":0}`
	b.intercept = func(*http.Request, []byte) (int, http.Header, string) {
		return 200, nil, `{"queue":"orders","messages":[` + message + `,` + strings.Replace(message, `"traceId":null`, `"traceId":"x"`, 1) + `]}`
	}
	got, err := connect(t, b).Pop(t.Context(), client.PopOptions{Queue: "orders"})
	require.NoError(t, err)
	encoded, err := got[0].MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, strings.TrimSuffix(message, "}")+`,"queue":"orders"}`, string(encoded))
	encoded, err = json.Marshal(got)
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"traceId":"x"`)
}

// If the answer of a pop with AutoAck is lost, neither the client nor http.Transport repeats the pop. A repetition could lose
// messages.
func TestAutoAckPopIsSentOnce(t *testing.T) {
	t.Parallel()
	b := newBroker()
	b.intercept = func(r *http.Request, _ []byte) (int, http.Header, string) {
		if r.URL.Query().Get("autoAck") == "true" {
			panic(http.ErrAbortHandler) // closes the connection
		}
		return 0, nil, ""
	}
	server := httptest.NewServer(b)
	defer server.Close()
	c, err := client.New(client.Config{URLs: []string{server.URL}})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Push(t.Context(), client.Item{Queue: "orders"}) // leaves an idle connection in the pool
	require.NoError(t, err)
	_, err = c.Pop(t.Context(), client.PopOptions{Queue: "orders", AutoAck: true})
	require.ErrorIs(t, err, client.ErrUnavailable)
	require.Equal(t, 1, b.count("GET"))
}

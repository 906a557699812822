package workload

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// clientsOn returns clients that use a server with the handler serve.
func clientsOn(t *testing.T, serve http.HandlerFunc) (*Clients, *history.Recorder) {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	recorder := history.NewRecorder()
	return New(Config{
		Seed: 1, URLs: []string{server.URL}, Recorder: recorder, Queues: 1, Partitions: 2, Producers: 1, Consumers: 1,
	}), recorder
}

func answerWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may have disconnected
	}
}

func someItems(ids ...string) []pushItem {
	var items []pushItem
	for _, id := range ids {
		items = append(items, pushItem{Queue: "q", Partition: "p", TransactionID: id, Payload: payload{Mark: "mark of " + id}})
	}
	return items
}

func TestOutcomesOfAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status     int
		body       string
		outcome    history.Outcome
		complaints int
	}{
		{http.StatusCreated, `[{"status":"queued","transaction_id":"a","message_id":"1"}]`, history.Done, 0},
		{http.StatusCreated, `[{"status":"buffered"}]`, history.Done, 1},
		{http.StatusCreated, `[]`, history.Unknown, 1},
		{http.StatusCreated, `{`, history.Unknown, 1},
		{http.StatusBadRequest, `{"error":"no"}`, history.Refused, 0},
		{http.StatusUnauthorized, `{"error":"no"}`, history.Refused, 1},
		{http.StatusForbidden, `{"error":"no"}`, history.Refused, 1},
		{http.StatusServiceUnavailable, `{"error":"the database is not available; send the request again"}`, history.Unknown, 0},
		{http.StatusServiceUnavailable, `{"error":"too slow; nothing was done: send the request again"}`, history.Refused, 0},
		{http.StatusInternalServerError, `{"error":"internal error"}`, history.Unknown, 1},
	} {
		clients, recorder := clientsOn(t, answerWith(c.status, c.body))
		clients.client("one").push(t.Context(), someItems("a"))
		operations := recorder.Operations()
		require.Len(t, operations, 1)
		require.Equal(t, c.outcome, operations[0].Outcome, "%d %s", c.status, c.body)
		require.Len(t, clients.Complaints(), c.complaints, "%d %s", c.status, c.body)
	}
}

func TestAbortedRequestsAreUnknown(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	clients, recorder := clientsOn(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		<-arrived
		leave()
	}()
	clients.client("one").pop(ctx, popRequest{queue: "q", batch: 1, partitions: 1, wait: time.Minute})
	require.Equal(t, history.Unknown, recorder.Operations()[0].Outcome)
}

// In this test the server leaves the outcome of every push open.
func TestUnknownPushesAreRepeatedUnchanged(t *testing.T) {
	t.Parallel()
	const enough = 20
	var mu sync.Mutex
	var bodies []string // bodies of pushes with ids
	stop, end := context.WithCancel(t.Context())
	defer end()
	clients, _ := clientsOn(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Items []pushItem }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if body.Items[0].TransactionID != "" {
			bodies = append(bodies, encode(body.Items))
		}
		if len(bodies) >= enough {
			end()
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	clients.client("one").produce(context.WithoutCancel(stop), stop)
	distinct := slices.Compact(slices.Clone(bodies))
	require.Len(t, bodies[:1+mostRepeats], 1+mostRepeats)
	for _, again := range bodies[:1+mostRepeats] {
		require.Equal(t, bodies[0], again)
	}
	require.Greater(t, len(distinct), 1, "after mostRepeats repetitions the producer pushes new items")
}

func TestMalformedBodiesMustBeRefused(t *testing.T) {
	t.Parallel()
	for status, complaints := range map[int]bool{
		http.StatusBadRequest: false, http.StatusServiceUnavailable: false,
		http.StatusCreated: true, http.StatusInternalServerError: true,
	} {
		// The next request must follow at once, over the same connection.
		stop, end := context.WithCancel(t.Context())
		var remote []string
		clients, _ := clientsOn(t, func(w http.ResponseWriter, r *http.Request) {
			if remote = append(remote, r.RemoteAddr); len(remote) == 50 {
				end()
			}
			w.WriteHeader(status)
		})
		clients.client("malformed").sendMalformed(t.Context(), stop)
		require.Equal(t, complaints, len(clients.Complaints()) > 0, "status %d", status)
		require.Len(t, slices.Compact(remote), 1)
		counts := clients.Counts()
		require.Equal(t, status == http.StatusBadRequest, counts.MalformedRefused > 0, "status %d", status)
		require.Equal(t, status == http.StatusServiceUnavailable, counts.MalformedUnavailable > 0, "status %d", status)
	}
}

func TestIDsAreLearnedFromDeliveries(t *testing.T) {
	t.Parallel()
	clients, recorder := clientsOn(t, answerWith(http.StatusServiceUnavailable, ""))
	items := someItems("", "")
	items[0].Payload.Mark, items[1].Payload.Mark = "x", "y"
	clients.client("one").push(t.Context(), items)
	clients.learn("x", "made by the server")
	operations := recorder.Operations()
	clients.Resolve(operations)
	require.Equal(t, "made by the server", operations[0].Items[0].TransactionID)
	require.Empty(t, operations[0].Items[1].TransactionID)
	promotion := history.Operation{Kind: history.Rewound, Begin: recorder.Now()}
	clients.learn("y", "lost")
	promotion.End = recorder.Now()
	clients.learn("y", "stored again")
	clients.Resolve(append(operations, promotion))
	require.Empty(t, clients.Complaints(), "a promotion may have lost the first id")
	require.Equal(t, "stored again", operations[0].Items[1].TransactionID)
	clients.learn("x", "another")
	clients.Resolve(append(operations, promotion))
	require.Len(t, clients.Complaints(), 1, "the message was stored twice")
}

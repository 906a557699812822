package workload

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// requestLog is a server that gives every request the same answer and keeps the requests.
type requestLog struct {
	mu    sync.Mutex
	lines []string
}

func (a *requestLog) serve(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has disconnected
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lines = append(a.lines, r.Method+" "+r.URL.Path+" "+string(sent))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // as in answerWith
	}
}

func TestOperatorsRecordTheirRequests(t *testing.T) {
	t.Parallel()
	var a requestLog
	clients, recorder := clientsOn(t, a.serve(http.StatusOK, `{"success":true}`))
	one := clients.client("one")
	one.deleteMessage(t.Context(), "q", known{"p", "id", "a"})
	one.seek(t.Context(), soughtGroup, "q", "", history.ToEnd)
	one.seek(t.Context(), soughtGroup, "q", "p", history.ToBeginning)
	one.seek(t.Context(), soughtGroup, "q", "", "2026-01-02T03:04:05.678Z")
	require.Equal(t, []string{
		"DELETE /api/v1/messages/id/a ",
		`POST /api/v1/consumer-groups/sought/queues/q/seek {"toEnd":true}`,
		`POST /api/v1/consumer-groups/sought/queues/q/partitions/p/seek {"toBeginning":true}`,
		`POST /api/v1/consumer-groups/sought/queues/q/seek {"timestamp":"2026-01-02T03:04:05.678Z"}`,
	}, a.lines)
	operations := recorder.Operations()
	require.True(t, operations[0].Items[0].Accepted)
	for i, place := range []string{"", history.ToEnd, history.ToBeginning, "2026-01-02T03:04:05.678Z"} {
		require.Equal(t, place, operations[i].Target)
		require.Equal(t, history.Done, operations[i].Outcome)
	}
	require.Equal(t, "p", operations[2].Partition)
	require.Empty(t, clients.Complaints())
}

func TestDeletionsOfMissingMessagesAreRecorded(t *testing.T) {
	t.Parallel()
	clients, recorder := clientsOn(t, answerWith(http.StatusOK, `{"success":false}`))
	clients.client("one").deleteMessage(t.Context(), "q", known{"p", "id", "a"})
	require.Equal(t, history.Done, recorder.Operations()[0].Outcome)
	require.False(t, recorder.Operations()[0].Items[0].Accepted)
}

// The deletion of a group in all queues is an operation in each queue.
func TestGroupsAndQueuesAreDeleted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		do   func(*client, context.Context, context.Context)
		kind history.Kind
		path string
	}{
		{(*client).removeGroups, history.DeleteGroup, "DELETE /api/v1/consumer-groups/broken"},
		{(*client).removeQueue, history.DeleteQueue, "DELETE /api/v1/resources/queues/chaos.gone"},
	} {
		stop, end := context.WithCancel(t.Context())
		var a requestLog
		serve := a.serve(http.StatusOK, `{}`)
		clients, recorder := clientsOn(t, func(w http.ResponseWriter, r *http.Request) {
			serve(w, r)
			end()
		})
		c.do(clients.client("one"), t.Context(), stop)
		require.Len(t, a.lines, 1)
		require.Contains(t, a.lines[0], c.path)
		require.Equal(t, c.kind, recorder.Operations()[0].Kind)
		require.Equal(t, history.Done, recorder.Operations()[0].Outcome)
	}
}

// A transaction of acks is one operation per lease, all with the same outcome.
func TestATransactionOfAcksHasOneOutcome(t *testing.T) {
	t.Parallel()
	held := func(lease string, ids ...string) delivery {
		d := delivery{popRequest: popRequest{queue: "q"}, LeaseID: lease}
		for _, id := range ids {
			d.Messages = append(d.Messages, message{TransactionID: id, Partition: "p"})
		}
		return d
	}
	for body, outcome := range map[string]history.Outcome{
		`{"success":true,"results":[{},{},{}]}`: history.Done,
		`{"success":false,"error":"no"}`:        history.Refused,
		`{"success":true,"results":[{}]}`:       history.Unknown,
	} {
		clients, recorder := clientsOn(t, answerWith(http.StatusOK, body))
		first, second := held("one", "a", "b"), held("two", "c")
		got := clients.client("one").completeOnce(t.Context(), "t", []part{{first, first.verdicts("completed")}, {second, second.verdicts("completed")}})
		require.Equal(t, outcome, got, body)
		operations := recorder.Operations()
		require.Len(t, operations, 2)
		for i, lease := range []string{"one", "two"} {
			require.Equal(t, lease, operations[i].LeaseID)
			require.Equal(t, "t", operations[i].Transaction)
			require.Equal(t, outcome, operations[i].Outcome)
			for _, item := range operations[i].Items {
				require.Equal(t, outcome == history.Done, item.Accepted)
			}
		}
		require.Equal(t, outcome == history.Unknown, len(clients.Complaints()) > 0)
	}
}

// An applied transaction is not refused when it is sent again, unless its messages may be deleted.
func TestAnAppliedTransactionIsNotRefusedWhenSentAgain(t *testing.T) {
	t.Parallel()
	const gone, other = "ACK operation failed: Message not found", "ACK operation failed: the lease is over"
	for _, c := range []struct {
		queue, err string
		complaint  bool
	}{{"chaos.0", gone, true}, {goneQueue, other, true}, {goneQueue, gone, false}} {
		sent := 0
		clients, _ := clientsOn(t, func(w http.ResponseWriter, _ *http.Request) {
			if sent++; sent%2 == 1 {
				_, _ = fmt.Fprint(w, `{"success":true,"results":[{"messageId":"1"}]}`)
			} else {
				_, _ = fmt.Fprintf(w, `{"success":false,"error":%q}`, c.err)
			}
		})
		one := clients.client("one")
		for sent%2 == 1 || sent == 0 { // sends again by chance
			sent = 0
			one.transact(t.Context(), transaction{name: "t", of: delivery{popRequest: popRequest{queue: c.queue}}, items: []pushItem{{Queue: "q"}}})
		}
		require.Equal(t, c.complaint, len(clients.Complaints()) > 0, "%+v", c)
	}
}

// Lossy queues get every message once: the producer never repeats a push.
func TestLossyQueuesGetNoRepeatedPushes(t *testing.T) {
	t.Parallel()
	stop, end := context.WithTimeout(t.Context(), 5*longestFeed)
	defer end()
	clients, recorder := clientsOn(t, answerWith(http.StatusServiceUnavailable, ""))
	clients.client("one").feed(t.Context(), stop, deletedQueue)
	pushed := map[string]bool{}
	for _, o := range recorder.Operations() {
		for _, item := range o.Items {
			require.False(t, pushed[item.TransactionID], "%s was pushed twice", item.TransactionID)
			pushed[item.TransactionID] = true
		}
	}
	require.NotEmpty(t, pushed)
}

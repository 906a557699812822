package workload

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// asked is a server that answers all with one body and notes the requests.
type asked struct {
	mu    sync.Mutex
	lines []string
}

func (a *asked) serve(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has left
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lines = append(a.lines, r.Method+" "+r.URL.Path+" "+string(sent))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // as in answerWith
	}
}

func TestOperatorsAskForWhatTheyRecord(t *testing.T) {
	t.Parallel()
	var a asked
	crew, recorder := crewOn(t, a.serve(http.StatusOK, `{"success":true}`))
	one := crew.client("one")
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
		require.Equal(t, place, operations[i].Place)
		require.Equal(t, history.Done, operations[i].Outcome)
	}
	require.Equal(t, "p", operations[2].Partition)
	require.Empty(t, crew.Complaints())
}

func TestADeletionThatFoundNothingSaysSo(t *testing.T) {
	t.Parallel()
	crew, recorder := crewOn(t, answerWith(http.StatusOK, `{"success":false}`))
	crew.client("one").deleteMessage(t.Context(), "q", known{"p", "id", "a"})
	require.Equal(t, history.Done, recorder.Operations()[0].Outcome)
	require.False(t, recorder.Operations()[0].Items[0].Accepted)
}

// A deletion of a group in all queues is an operation in each.
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
		var a asked
		serve := a.serve(http.StatusOK, `{}`)
		crew, recorder := crewOn(t, func(w http.ResponseWriter, r *http.Request) {
			serve(w, r)
			end()
		})
		c.do(crew.client("one"), t.Context(), stop)
		require.Len(t, a.lines, 1)
		require.Contains(t, a.lines[0], c.path)
		require.Equal(t, c.kind, recorder.Operations()[0].Kind)
		require.Equal(t, history.Done, recorder.Operations()[0].Outcome)
	}
}

// What is completed together is an operation for each lease, all with one outcome.
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
		crew, recorder := crewOn(t, answerWith(http.StatusOK, body))
		first, second := held("one", "a", "b"), held("two", "c")
		got := crew.client("one").completeOnce(t.Context(), "t", []part{{first, first.digest("completed")}, {second, second.digest("completed")}})
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
		require.Equal(t, outcome == history.Unknown, len(crew.Complaints()) > 0)
	}
}

// Queues aside get every message once: what they lose is not pushed again.
func TestNothingIsPushedAgainToAQueueThatLosesMessages(t *testing.T) {
	t.Parallel()
	stop, end := context.WithTimeout(t.Context(), 5*longestAside)
	defer end()
	crew, recorder := crewOn(t, answerWith(http.StatusServiceUnavailable, ""))
	crew.client("one").feed(t.Context(), stop, deletedQueue)
	pushed := map[string]bool{}
	for _, o := range recorder.Operations() {
		for _, item := range o.Items {
			require.False(t, pushed[item.TransactionID], "%s was pushed twice", item.TransactionID)
			pushed[item.TransactionID] = true
		}
	}
	require.NotEmpty(t, pushed)
}

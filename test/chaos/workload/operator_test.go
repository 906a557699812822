package workload

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// A transaction of acks is recorded as one operation per lease. All of them have the same outcome.
func TestTransactionOfAcksHasOneOutcome(t *testing.T) {
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

// A server must not refuse a repetition of an applied transaction. An exception is a queue whose messages may be
// deleted.
func TestRefusedRepetitionOfAnAppliedTransactionIsAComplaint(t *testing.T) {
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
		for sent%2 == 1 || sent == 0 { // transact repeats the request by chance
			sent = 0
			one.transact(t.Context(), transaction{name: "t", of: delivery{popRequest: popRequest{queue: c.queue}}, items: []pushItem{{Queue: "q"}}})
		}
		require.Equal(t, c.complaint, len(clients.Complaints()) > 0, "%+v", c)
	}
}

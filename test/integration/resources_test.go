package integration_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type counted struct{ Total, Pending, Processing, Completed, Failed, DeadLetter int }

type listedQueue struct {
	ID, Name, Namespace, Task, CreatedAt string
	Partitions                           int
	Messages                             counted
}

type queueDetail struct {
	Partitions []struct {
		ID, Name                     string
		Stats                        counted
		OldestMessage, NewestMessage *string
	}
	Totals counted
}

type listedMessage struct {
	ID, TransactionID, PartitionID, QueuePath, Queue, Partition, Namespace, Task, Status, QueueStatus, CreatedAt string
	BusStatus                                                                                                    struct{ ConsumedBy, TotalGroups int }
	LeaseExpiresAt                                                                                               *string
}

type messageList struct {
	Messages   []listedMessage
	Mode       struct{ Type string }
	Pagination struct {
		Limit, Offset int
		Next          *string
	}
}

func (l messageList) ids() []string {
	ids := make([]string, len(l.Messages))
	for i, m := range l.Messages {
		ids[i] = m.TransactionID
	}
	return ids
}

// fillStates gives a queue one message in each state, as a reader without a group sees them. With withGroup, a group
// reads one of them as well.
func (c client) fillStates(queue, partition string, withGroup bool) {
	c.t.Helper()
	c.pushIDs(queue, partition, "done", "dead", "leased", "waiting")
	got := c.popPartition(queue, partition, "batch=3").ok(http.StatusOK)
	for _, one := range c.ackBatch("", append(got.ack("completed", 0), got.ack("dlq", 1)...)...).ok(http.StatusOK) {
		require.True(c.t, one.Success)
	}
	if withGroup {
		c.popPartition(queue, partition, "consumerGroup=g&autoAck=true&batch=1").ok(http.StatusOK)
	}
}

// requireCounts requires the counts of a queue with one partition, in its detail and in its status.
func (c client) requireCounts(queue string, want counted) {
	c.t.Helper()
	detail := ask[queueDetail](c, get("/api/v1/resources/queues/"+url.PathEscape(queue))).ok(http.StatusOK)
	require.Equal(c.t, want, detail.Totals)
	require.Equal(c.t, want, detail.Partitions[0].Stats)
	require.NotNil(c.t, detail.Partitions[0].OldestMessage)
	status := ask[struct {
		Queue      struct{ Name string }
		Partitions []struct {
			Messages, Stats counted
			Cursor          struct{ TotalConsumed int }
		}
		Totals struct {
			counted
			Messages counted
		}
	}](c, get("/api/v1/status/queues/"+url.PathEscape(queue))).ok(http.StatusOK)
	require.Equal(c.t, queue, status.Queue.Name)
	require.Equal(c.t, want, status.Totals.counted)
	require.Equal(c.t, want, status.Totals.Messages)
	require.Equal(c.t, want, status.Partitions[0].Messages)
}

func TestResources(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	none := ask[struct{ Queues []listedQueue }](c, get("/api/v1/resources/queues"))
	require.JSONEq(t, `{"queues": []}`, string(none.Raw))
	require.Equal(t, "Queue not found", ask[queueDetail](c, get("/api/v1/resources/queues/q")).failure)
	require.Equal(t, "Queue not found", ask[queueDetail](c, get("/api/v1/status/queues/q")).failure)
	require.Equal(t, http.StatusNotFound, ask[any](c, get("/api/v1/status/queues/q/messages")).Status)
	require.Empty(t, ask[messageList](c, get("/api/v1/messages?queue=q")).ok(http.StatusOK).Messages)

	const odd = "50% off.☂/ü?"
	c.fillStates("orders.new", "eu", false)
	c.fillStates(odd, "a/b%", true)
	c.configure("orders.slow", map[string]any{"delayedProcessing": 3600}).ok(http.StatusOK)
	c.pushIDs("orders.slow", "p", "1", "2")
	require.Empty(t, c.popIDs("orders.slow", ""))
	c.pushIDs("gone", "p", "1")
	c.deleteQueue("gone").ok(http.StatusOK)

	queues := ask[struct{ Queues []listedQueue }](c, get("/api/v1/resources/queues")).ok(http.StatusOK).Queues
	var names []string
	var messages []counted
	for _, q := range queues {
		requireUUID(t, q.ID)
		names, messages = append(names, q.Name), append(messages, q.Messages)
	}
	require.Equal(t, []string{"orders.slow", odd, "orders.new"}, names)
	require.Equal(t, []counted{{Total: 2, Pending: 2}, {Total: 4, Pending: 2, DeadLetter: 1}, {Total: 4, Pending: 1, Processing: 1, DeadLetter: 1}}, messages)

	for queue, want := range map[string]counted{
		"orders.new": {Total: 4, Pending: 1, Processing: 1, Completed: 1, DeadLetter: 1},
		// The group has consumed only the first message. The message leased by the other reader still waits for it.
		odd: {Total: 4, Pending: 2, Completed: 1, DeadLetter: 1},
	} {
		c.requireCounts(queue, want)
	}
	namespaces := ask[struct {
		Namespaces []struct {
			Namespace          string
			Queues, Partitions int
			Messages           counted
		}
	}](c, get("/api/v1/resources/namespaces")).ok(http.StatusOK).Namespaces
	require.Len(t, namespaces, 2)
	require.Equal(t, "orders", namespaces[1].Namespace, "a configured queue without a namespace has none")
	require.Equal(t, counted{Total: 4, Pending: 1}, namespaces[1].Messages)
	overview := ask[struct {
		Queues, Partitions, Namespaces, Tasks int
		Messages                              counted
		Throughput                            struct{ IngestedPerSecond float64 }
	}](c, get("/api/v1/resources/overview")).ok(http.StatusOK)
	require.Equal(t, []int{3, 4, 2, 2}, []int{overview.Queues, overview.Partitions, overview.Namespaces, overview.Tasks})
	require.Equal(t, counted{Total: 10, Pending: 5, Processing: 1, Completed: 2, DeadLetter: 2}, overview.Messages)
	require.Positive(t, overview.Throughput.IngestedPerSecond)
	page := ask[struct{ Queues []listedQueue }](c, get("/api/v1/status/queues?namespace=orders&limit=1")).ok(http.StatusOK)
	require.Equal(t, "orders.new", page.Queues[0].Name)
	require.Empty(t, ask[struct{ Queues []listedQueue }](c, get("/api/v1/status/queues?offset=3")).ok(http.StatusOK).Queues)
}

func TestMessageLists(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	const odd = "50% off.☂/ü?"
	c.fillStates("orders.new", "eu", false)
	c.fillStates(odd, "a/b%", true)
	list := func(query string) messageList {
		t.Helper()
		return ask[messageList](c, get("/api/v1/messages?"+query)).ok(http.StatusOK)
	}
	require.Len(t, list("").Messages, 8)
	newest := []string{"waiting", "leased", "dead", "done"}
	require.Equal(t, newest, list("queue="+url.QueryEscape(odd)).ids())
	require.Equal(t, newest, list("partition="+url.QueryEscape("a/b%")).ids())
	require.Equal(t, newest, list("ns=orders").ids())
	require.Equal(t, newest, list("namespace=orders&task=new").ids())
	require.Empty(t, list("to=2020-01-01T00:00:00Z").ids())
	require.Empty(t, list("from=2999-01-01T00:00:00Z").ids())
	for status, id := range map[string]string{"pending": "waiting", "processing": "leased", "completed": "done", "dead_letter": "dead"} {
		got := list("queue=orders.new&status=" + status)
		require.Equal(t, []string{id}, got.ids(), status)
		require.Equal(t, status, got.Messages[0].Status)
		require.Equal(t, status == "processing", got.Messages[0].LeaseExpiresAt != nil)
	}
	hybrid := list("queue=" + url.QueryEscape(odd))
	require.Equal(t, "hybrid", hybrid.Mode.Type)
	require.Equal(t, odd+"/a/b%", hybrid.Messages[0].QueuePath)
	require.Equal(t, struct{ ConsumedBy, TotalGroups int }{1, 1}, hybrid.Messages[3].BusStatus)
	raw := ask[struct{ Messages []json.RawMessage }](c, get("/api/v1/messages?limit=1")).ok(http.StatusOK)
	require.Equal(t, []string{
		"busStatus", "createdAt", "id", "leaseExpiresAt", "namespace", "partition", "partitionId", "producerSub", "queue", "queuePath",
		"queuePriority", "queueStatus", "status", "task", "traceId", "transactionId",
	}, keys(t, raw.Messages[0]), "no payload")

	var paged []string
	for query := "limit=3"; ; {
		page := list(query)
		paged = append(paged, page.ids()...)
		if page.Pagination.Next == nil {
			break
		}
		query = "limit=3&cursor=" + *page.Pagination.Next
	}
	require.Equal(t, slices.Concat(newest, newest), paged)
	require.Equal(t, newest[2:], list("queue=orders.new&offset=2").ids())

	of := "/api/v1/status/queues/" + url.PathEscape(odd) + "/messages"
	first := ask[[]listedMessage](c, get(of+"?limit=3"))
	require.Len(t, first.ok(http.StatusOK), 3)
	require.Equal(t, "pending processing dead_letter", strings.Join([]string{first.body[0].Status, first.body[1].Status, first.body[2].Status}, " "))
	rest := ask[[]listedMessage](c, get(of+"?limit=3&cursor="+first.Header.Get("X-Next-Cursor")))
	require.Len(t, rest.ok(http.StatusOK), 1)
	require.Equal(t, "done", rest.body[0].TransactionID)
	require.Empty(t, rest.Header.Get("X-Next-Cursor"))
	ask[any](c, get("/api/v1/messages?status=lost")).refused(`status is "lost": it must be pending, processing, completed or dead_letter`)
}

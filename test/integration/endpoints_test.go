package integration_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// keys returns the sorted names of a JSON object.
func keys(t *testing.T, raw []byte) []string {
	t.Helper()
	var object map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &object), "%.300s", raw)
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// keysOfEach returns the names of each object in a JSON array.
func keysOfEach(t *testing.T, raw []byte) [][]string {
	t.Helper()
	var elements []json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &elements), "%.300s", raw)
	names := make([][]string, len(elements))
	for i, element := range elements {
		names[i] = keys(t, element)
	}
	return names
}

func requireUUID(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, err := uuid.Parse(id)
		require.NoError(t, err, "%q", id)
		require.Len(t, id, 36)
	}
}

var (
	queuedKeys    = []string{"index", "message_id", "partition_id", "queueName", "status", "trace_id", "transaction_id"}
	duplicateKeys = []string{"index", "message_id", "queueName", "status", "transaction_id"}
	deliveryKeys  = []string{
		"consumerGroup", "leaseId", "messages", "partition", "partitionId", "partitionsClaimed", "queue", "success",
	}
	messageKeys = []string{
		"attempt", "consumerGroup", "createdAt", "data", "id", "leaseId", "partition", "partitionId", "producerSub", "traceId",
		"transactionId",
	}
	ackedKeys = []string{"dlq", "error", "index", "leaseReleased", "partitionName", "queueName", "success", "transactionId"}
)

func TestEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, c client){
		"push":                    endpointPush,
		"push to many partitions": endpointPushMany,
		"pop":                     endpointPop,
		"pop of one partition":    endpointPopPartition,
		"pop by tags":             endpointPopTagged,
		"pop without a message":   endpointPopNothing,
		"ack":                     endpointAck,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t))
		})
	}
}

func endpointPush(t *testing.T, c client) {
	const trace = "0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f"
	first := c.push(
		item{Queue: "push", TransactionID: "a", TraceID: trace},
		item{Queue: "push", TransactionID: "b"},
		item{Queue: "push"},
		item{Queue: "push", TransactionID: "a"},
	)
	got := first.ok(http.StatusCreated)
	require.Equal(t, "application/json", first.Header.Get("Content-Type"))
	require.Equal(t, [][]string{queuedKeys, queuedKeys, queuedKeys, duplicateKeys}, keysOfEach(t, first.Raw))
	require.Equal(t, &[]string{trace}[0], got[0].TraceID)
	require.Nil(t, got[1].TraceID)
	for i, one := range got {
		require.Equal(t, i, one.Index)
		require.Equal(t, "push", one.QueueName)
		requireUUID(t, one.MessageID)
	}
	require.Equal(t, []string{"queued", "queued", "queued", "duplicate"},
		[]string{got[0].Status, got[1].Status, got[2].Status, got[3].Status})
	require.Equal(t, "a", got[0].TransactionID)
	requireUUID(t, got[0].PartitionID, got[2].TransactionID)
	require.Equal(t, got[0].MessageID, got[3].MessageID, "a duplicate must have the id of the first item")

	again := c.push(item{Queue: "push", TransactionID: "new"}, item{Queue: "push", TransactionID: "b"})
	repeated := again.ok(http.StatusCreated)
	require.Equal(t, [][]string{queuedKeys, duplicateKeys}, keysOfEach(t, again.Raw))
	require.Equal(t, pushed{Index: 1, Status: "duplicate", TransactionID: "b", MessageID: got[1].MessageID, QueueName: "push"}, repeated[1])
	require.Equal(t, []string{"a", "b", got[2].TransactionID, "new"}, c.popIDs("push", "batch=10"), "each message must be stored once, in order")
}

func endpointPushMany(t *testing.T, c client) {
	got := c.push(
		item{Queue: "many.1", Partition: "p", TransactionID: "a"},
		item{Queue: "many.2", TransactionID: "a"},
		item{Queue: "many.1", Partition: "o", TransactionID: "a"},
		item{Queue: "many.1", Partition: "p", TransactionID: "b"},
	).ok(http.StatusCreated)
	for i, one := range got {
		require.Equal(t, i, one.Index)
		require.Equal(t, "queued", one.Status, "the same transaction id in another partition must be a new message")
	}
	require.Equal(t, got[0].PartitionID, got[3].PartitionID)
	require.NotEqual(t, got[0].PartitionID, got[2].PartitionID)
	require.Equal(t, []string{"many.1", "many.2", "many.1", "many.1"},
		[]string{got[0].QueueName, got[1].QueueName, got[2].QueueName, got[3].QueueName})
	require.Equal(t, []string{"a", "b"}, c.popPartition("many.1", "p", "batch=5").ok(http.StatusOK).ids())
	require.Equal(t, []string{"a"}, c.popPartition("many.1", "o", "batch=5").ok(http.StatusOK).ids())
	require.Equal(t, []string{"a"}, c.popPartition("many.2", "Default", "batch=5").ok(http.StatusOK).ids(), "the default partition must be Default")
}

func endpointPop(t *testing.T, c client) {
	const trace = "0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f"
	stored := c.push(
		item{Queue: "pop", Partition: "p", TransactionID: "a", TraceID: trace, Payload: json.RawMessage(`{"n":1}`)},
		item{Queue: "pop", Partition: "p", TransactionID: "b"},
	).ok(http.StatusCreated)
	answer := c.pop("pop", "batch=5&consumerGroup=g")
	got := answer.ok(http.StatusOK)
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	require.Equal(t, deliveryKeys, keys(t, answer.Raw))
	requireUUID(t, got.LeaseID)
	require.Equal(t, delivery{
		Success: true, Queue: "pop", Partition: "p", PartitionID: stored[0].PartitionID, LeaseID: got.LeaseID,
		ConsumerGroup: "g", PartitionsClaimed: 1, Messages: got.Messages,
	}, got)
	require.Len(t, got.Messages, 2)
	require.Equal(t, message{
		ID: stored[0].MessageID, TransactionID: "a", TraceID: &[]string{trace}[0], Data: json.RawMessage(`{"n":1}`),
		CreatedAt: got.Messages[0].CreatedAt, PartitionID: stored[0].PartitionID, Partition: "p", LeaseID: got.LeaseID,
		ConsumerGroup: "g", Attempt: 1,
	}, got.Messages[0])
	require.Nil(t, got.Messages[1].TraceID)
	require.Equal(t, "null", string(got.Messages[1].Data), "a missing payload must become null")

	var body struct{ Messages []json.RawMessage }
	require.NoError(t, json.Unmarshal(answer.Raw, &body))
	for i, raw := range body.Messages {
		require.Equal(t, messageKeys, keys(t, raw))
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, got.Messages[i].CreatedAt)
		at, err := time.Parse(time.RFC3339Nano, got.Messages[i].CreatedAt)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Minute, "createdAt must be the current time in UTC")
	}

	plain := c.pop("pop", "autoAck=true&batch=1").ok(http.StatusOK)
	require.Equal(t, "__QUEUE_MODE__", plain.ConsumerGroup)
	require.Equal(t, "__QUEUE_MODE__", plain.Messages[0].ConsumerGroup)
	require.Empty(t, plain.LeaseID, "autoAck must take no lease")
	require.Empty(t, plain.Messages[0].LeaseID)
}

func endpointPopPartition(t *testing.T, c client) {
	c.pushIDs("pop-one", "p", "a", "b")
	c.pushIDs("pop-one", "o", "x")
	answer := c.popPartition("pop-one", "o", "batch=5&partitions=5")
	got := answer.ok(http.StatusOK)
	require.Equal(t, deliveryKeys, keys(t, answer.Raw))
	require.Equal(t, []string{"x"}, got.ids())
	require.Equal(t, "o", got.Partition)
	require.Equal(t, 1, got.PartitionsClaimed)
	require.Equal(t, http.StatusNoContent, c.popPartition("pop-one", "o", "").Status, "a leased partition must not be popped")
	require.Equal(t, []string{"a"}, c.popPartition("pop-one", "p", "").ok(http.StatusOK).ids(), "the default batch must be 1")
}

func endpointPopTagged(t *testing.T, c client) {
	c.pushIDs("ns1.t1.rest", "", "one")
	c.pushIDs("ns1.t2", "", "two")
	c.pushIDs("ns2", "", "three")
	tagged := func(query string) delivery {
		return ask[delivery](c, popTaggedCall(query)).ok(http.StatusOK)
	}
	require.Equal(t, []string{"two"}, tagged("namespace=ns1&task=t2&consumerGroup=a").ids())
	got := tagged("task=t1&consumerGroup=a")
	require.Equal(t, "ns1.t1.rest", got.Queue)
	require.Equal(t, []string{"three"}, tagged("namespace=ns2&consumerGroup=a").ids(), "a queue name without a dot must be its namespace")

	seen := []string{}
	for range 2 {
		seen = append(seen, tagged("namespace=ns1&consumerGroup=b").ids()...)
	}
	require.ElementsMatch(t, []string{"one", "two"}, seen)
	for _, query := range []string{"namespace=ns1&consumerGroup=b", "namespace=ns1&task=none", "namespace=none"} {
		require.Equal(t, http.StatusNoContent, ask[delivery](c, popTaggedCall(query)).Status, query)
	}
}

func endpointPopNothing(t *testing.T, c client) {
	c.configure("empty", nil).ok(http.StatusOK)
	for _, what := range []call{
		popCall("empty", ""), popCall("unknown", ""), popPartitionCall("empty", "Default", ""),
		popPartitionCall("empty", "unknown", ""), popPartitionCall("unknown", "unknown", ""),
		popCall("unknown", "wait=true&timeout=50"),
	} {
		got := ask[delivery](c, what)
		require.Equal(t, http.StatusNoContent, got.Status, what.Target)
		require.Empty(t, got.Raw, what.Target)
	}
	require.False(t, c.storedQueue("unknown"), "a pop must not create a queue")
}

func endpointAck(t *testing.T, c client) {
	c.pushIDs("ack", "p", "a", "b")
	got := c.pop("ack", "batch=2").ok(http.StatusOK)
	answer := c.ack(got.ack("completed", 0)[0])
	require.Equal(t, [][]string{ackedKeys}, keysOfEach(t, answer.Raw), "the answer must be an array with one element")
	queue, partition, released := "ack", "p", false
	require.Equal(t, []acked{{
		TransactionID: "a", Success: true, QueueName: &queue, PartitionName: &partition, LeaseReleased: &released,
	}}, answer.ok(http.StatusOK))
	last := c.ack(ackItem{TransactionID: "b", PartitionID: got.PartitionID}).ok(http.StatusOK)
	require.True(t, last[0].Success, "the default status must be completed")
	require.True(t, last[0].released())
	require.Empty(t, c.popIDs("ack", ""))
}

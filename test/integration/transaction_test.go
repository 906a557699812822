package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// operation is one operation of a transaction.
type operation struct {
	Type          string          `json:"type"`
	Items         []item          `json:"items,omitempty"`
	Queue         string          `json:"queue,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
	TransactionID string          `json:"transactionId,omitempty"`
	PartitionID   string          `json:"partitionId,omitempty"`
	Status        string          `json:"status,omitempty"`
	ConsumerGroup string          `json:"consumerGroup,omitempty"`
	LeaseID       string          `json:"leaseId,omitempty"`
}

type transacted struct {
	TransactionID string `json:"transactionId"`
	Success       bool   `json:"success"`
	Error         string `json:"error"`
	Results       []struct {
		Index         int     `json:"index"`
		Type          string  `json:"type"`
		Success       bool    `json:"success"`
		TransactionID string  `json:"transactionId"`
		MessageID     *string `json:"messageId"`
		PartitionID   string  `json:"partitionId"`
		QueueName     string  `json:"queueName"`
		Error         *string `json:"error"`
		DLQ           bool    `json:"dlq"`
	} `json:"results"`
}

func pushing(items ...item) operation { return operation{Type: "push", Items: items} }

// acking returns ack operations without lease ids. The official clients of Queen MQ send them in this form.
func (d delivery) acking(status string, indexes ...int) []operation {
	var list []operation
	for _, one := range d.ack(status, indexes...) {
		list = append(list, operation{Type: "ack", TransactionID: one.TransactionID, PartitionID: one.PartitionID, Status: status})
	}
	return list
}

func transactCall(leases []string, operations ...operation) call {
	return post("/api/v1/transaction", encode(map[string]any{"operations": operations, "requiredLeases": leases}))
}

func (c client) transact(leases []string, operations ...operation) answer[transacted] {
	c.t.Helper()
	return ask[transacted](c, transactCall(leases, operations...))
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, s *server){
		"moves messages to another queue":   transactionMoves,
		"in a consumer group":               transactionGroup,
		"12,000 operations":                 transactionLarge,
		"while its queue is recreated":      transactionRecreated,
		"concurrent transactions of pushes": transactionsAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s)
		})
	}
}

func transactionMoves(t *testing.T, s *server) {
	g := given(t, s, 3, 2, nil)
	out := g.queue + " out"
	operations := append(g.first.acking("completed"),
		pushing(item{Queue: out, TransactionID: "a", Payload: []byte(`{"z":1,"a":2}`)}, item{Queue: out, Partition: "x"}),
		operation{Type: "push", Queue: out, TransactionID: "b", Data: []byte(`[1]`)})
	answer := g.transact([]string{g.first.LeaseID, g.first.LeaseID}, operations...)
	got := answer.ok(http.StatusOK)
	require.True(t, got.Success, got.Error)
	require.Equal(t, []string{"results", "success", "transactionId"}, keys(t, answer.Raw))
	var raw struct{ Results json.RawMessage }
	require.NoError(t, json.Unmarshal(answer.Raw, &raw))
	acked, pushed := []string{"dlq", "error", "index", "success", "transactionId", "type"},
		[]string{"index", "messageId", "partitionId", "queueName", "success", "transactionId", "type"}
	require.Equal(t, [][]string{acked, acked, pushed, pushed, pushed}, keysOfEach(t, raw.Results))
	requireUUID(t, got.TransactionID, got.Results[3].TransactionID, got.Results[3].PartitionID)
	stored := map[string]string{}
	d := g.pop(out, "batch=9&partitions=9&autoAck=true").ok(http.StatusOK)
	for _, m := range d.Messages {
		stored[m.ID] = m.TransactionID + " " + m.Partition + " " + string(m.Data)
	}
	for i, want := range []string{"", "", `a Default {"z":1,"a":2}`, got.Results[3].TransactionID + " x null", "b Default [1]"} {
		require.Equal(t, i, got.Results[i].Index)
		require.True(t, got.Results[i].Success)
		if want != "" {
			require.Equal(t, "push", got.Results[i].Type)
			require.Equal(t, out, got.Results[i].QueueName)
			require.Equal(t, want, stored[*got.Results[i].MessageID])
		}
	}
	require.Equal(t, []string{"m3"}, g.take(9).ids(), "the lease must have ended")
}

func transactionGroup(t *testing.T, s *server) {
	g := given(t, s, 2, 2, nil)
	d := g.pop(g.queue, "batch=2&consumerGroup=g").ok(http.StatusOK)
	operations := d.acking("completed")
	for i := range operations {
		operations[i].ConsumerGroup = "g"
	}
	require.True(t, g.transact([]string{d.LeaseID}, operations...).ok(http.StatusOK).Success)
	require.Empty(t, g.popIDs(g.queue, "consumerGroup=g"))
	require.False(t, g.transact([]string{d.LeaseID}, g.first.acking("completed")...).ok(http.StatusOK).Success)
	require.True(t, g.transact([]string{g.first.LeaseID}, g.first.acking("completed")...).ok(http.StatusOK).Success, "each group must have its own lease")
}

func transactionLarge(t *testing.T, s *server) {
	c := s.client(t)
	queue := t.Name()
	items := make([]item, 11_999)
	for i := range items {
		items[i] = item{Queue: queue, Partition: fmt.Sprint(i % 50), TransactionID: fmt.Sprint(i)}
	}
	c.pushIDs(queue, "in", "m")
	d := c.pop(queue, "").ok(http.StatusOK)
	operations := append(d.acking("completed"), pushing(items...))
	require.True(t, c.transact([]string{d.LeaseID}, operations...).ok(http.StatusOK).Success)
	first := c.popIDs(queue, "batch=20000&partitions=100&autoAck=true")
	require.Len(t, first, 10_000)
	require.Len(t, c.popIDs(queue, "batch=20000&partitions=100&autoAck=true"), len(items)-len(first))
	more := make([]item, 100_001)
	for i := range more {
		more[i] = item{Queue: queue}
	}
	c.transact(nil, pushing(more...)).refused(
		"operations has more than 100000 operations (each pushed item counts as an operation): send several transactions")
}

func transactionRecreated(t *testing.T, s *server) {
	c := s.client(t)
	queue := t.Name()
	for range 3 {
		require.True(t, c.transact(nil, pushing(item{Queue: queue, TransactionID: "m"})).ok(http.StatusOK).Success)
		require.Equal(t, []string{"m"}, c.popIDs(queue, ""))
		require.True(t, c.deleteQueue(queue).ok(http.StatusOK).Existed)
	}
}

func transactionsAtOnce(t *testing.T, s *server) {
	queue := t.Name()
	calls := make([]call, 40)
	for i := range calls {
		one := item{Queue: queue, Partition: fmt.Sprint(i % 3), TransactionID: fmt.Sprint(i / 2)}
		calls[i] = transactCall(nil, pushing(one, item{Queue: queue, Partition: fmt.Sprint((i + 1) % 3)}))
	}
	applied := 0
	for _, one := range all[transacted](t, []*server{s}, http.StatusOK, calls) {
		if one.Success {
			applied++
		} else {
			require.Contains(t, one.Error, "Duplicate transactionId")
		}
	}
	require.Len(t, s.client(t).popIDs(queue, "batch=999&partitions=9&autoAck=true"), 2*applied)
}

package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// streamQuery is the answer to the registration of a query.
type streamQuery struct {
	Success, Fresh, Reset bool
	QueryID               string `json:"query_id"`
	Error                 string
}

// cycled is the answer to a cycle.
type cycled struct {
	Success         bool
	Error           string
	QueueName       *string `json:"queueName"`
	StateOpsApplied int     `json:"state_ops_applied"`
	PushResults     []pushed
	AckResult       *struct {
		Success, DLQ  bool
		Count         int
		LeaseReleased bool `json:"lease_released"`
	} `json:"ack_result"`
}

type object = map[string]any

func (c client) register(body object) answer[streamQuery] {
	c.t.Helper()
	return ask[streamQuery](c, post("/streams/v1/queries", encode(body)))
}

func (c client) cycle(body object) cycled {
	c.t.Helper()
	return ask[cycled](c, post("/streams/v1/cycle", encode(body))).ok(http.StatusOK)
}

// state returns the keys of the state with their values, in order.
func (c client) state(query, partition string, filter object) (keys []string) {
	c.t.Helper()
	body := object{"query_id": query, "partition_id": partition}
	for name, value := range filter {
		body[name] = value
	}
	got := ask[struct {
		Rows []struct {
			Key   string
			Value json.RawMessage
		}
	}](c, post("/streams/v1/state/get", encode(body))).ok(http.StatusOK)
	keys = []string{}
	for _, row := range got.Rows {
		keys = append(keys, row.Key+"="+string(row.Value))
	}
	return keys
}

func upsert(key string, value any) object {
	return object{"type": "upsert", "key": key, "value": value}
}

// A query must keep its state while its config_hash is the same.
func TestAQueryIsRegistered(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	body := object{"name": "sum", "source_queue": "q", "sink_queue": "out", "config_hash": "1"}
	first := c.register(body).ok(http.StatusOK)
	require.Equal(t, streamQuery{Success: true, Fresh: true, QueryID: first.QueryID}, first)
	require.Equal(t, streamQuery{Success: true, QueryID: first.QueryID}, c.register(body).ok(http.StatusOK))
	partition := c.pushIDs("q", "p", "1")[0].PartitionID
	require.True(t, c.cycle(object{"query_id": first.QueryID, "partition_id": partition, "state_ops": []object{upsert("k", 1)}}).Success)
	body["config_hash"] = "2"
	refused := c.register(body)
	require.Equal(t, http.StatusConflict, refused.Status)
	require.Contains(t, string(refused.Raw), `config_hash mismatch`)
	require.Equal(t, []string{"k=1"}, c.state(first.QueryID, partition, nil))
	body["reset"] = true
	require.Equal(t, streamQuery{Success: true, Reset: true, QueryID: first.QueryID}, c.register(body).ok(http.StatusOK))
	require.Empty(t, c.state(first.QueryID, partition, nil))
	require.True(t, c.cycle(object{"query_id": first.QueryID, "partition_id": partition, "state_ops": []object{upsert("k", 1)}}).Success)
	require.False(t, c.register(body).ok(http.StatusOK).Reset)
	require.Equal(t, []string{"k=1"}, c.state(first.QueryID, partition, nil), "a reset with the same hash must delete nothing")

	listed := ask[struct{ Streams []object }](c, get("/api/v1/streams")).ok(http.StatusOK).Streams
	require.Len(t, listed, 1)
	require.Equal(t, []any{"sum", "q", "out", "2", "streams." + first.QueryID, float64(1)},
		[]any{listed[0]["name"], listed[0]["sourceQueue"], listed[0]["sinkQueue"], listed[0]["configHash"], listed[0]["consumerGroup"], listed[0]["stateKeys"]})
	for _, existed := range []bool{true, false} {
		gone := ask[struct{ Existed bool }](c, call{Method: http.MethodDelete, Target: "/api/v1/streams/" + first.QueryID}).ok(http.StatusOK)
		require.Equal(t, existed, gone.Existed)
	}
	require.Len(t, c.audit("action=stream.delete").Entries, 2)
	require.Empty(t, c.state(first.QueryID, partition, nil))
	require.Contains(t, c.cycle(object{"query_id": first.QueryID, "partition_id": partition}).Error, "Unknown query_id")
	for field, text := range map[string]string{"name": "name is required", "source_queue": "source_queue is required", "config_hash": "config_hash is required"} {
		broken := object{"name": "n", "source_queue": "q", "config_hash": "h"}
		broken[field] = ""
		c.register(broken).refused(text)
	}
}

// A cycle commits its state, pushes and ack together. A cycle that fails must change nothing.
func TestACycleIsOneTransaction(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	query := c.register(object{"name": "sum", "source_queue": "q", "config_hash": "1"}).ok(http.StatusOK).QueryID
	group := "streams." + query
	c.pushIDs("q", "p", "1", "2", "3", "4", "5", "6")
	pop := func(batch int) delivery {
		return c.pop("q", fmt.Sprintf("consumerGroup=%s&batch=%d&wait=true&timeout=30000", group, batch)).ok(http.StatusOK)
	}
	d := pop(3)
	partition := d.PartitionID
	cycle := func(lease, ack string, more object) cycled {
		body := object{"query_id": query, "partition_id": partition, "consumer_group": group}
		if ack != "" {
			body["ack"] = object{"transactionId": ack, "leaseId": lease, "count": 2}
		}
		for name, value := range more {
			body[name] = value
		}
		return c.cycle(body)
	}
	work := object{"state_ops": []object{upsert("a", 1), upsert("b%", object{"windowEnd": 10}), upsert("b_", object{"windowEnd": 20.5}), upsert("c", 1), upsert("c", 2)},
		"push_items": []object{{"queue": "out", "partition": "o", "payload": 1, "transactionId": "x"}, {"queue": "out", "partition": "o", "payload": 2}}}

	for name, refused := range map[string]cycled{
		"an unknown message": cycle(d.LeaseID, "7", work), "another lease": cycle(queue.NewID().String(), "1", work),
		"an unknown status": cycle("", "", object{"ack": object{"transactionId": "1", "status": "retry"}, "state_ops": work["state_ops"]}),
		"no partition":      cycle("", "", object{"partition_id": "x", "state_ops": work["state_ops"]}),
		"no query":          cycle("", "", object{"query_id": "x", "push_items": work["push_items"]}),
	} {
		require.False(t, refused.Success, name)
		require.NotEmpty(t, refused.Error, name)
	}
	require.Empty(t, c.state(query, partition, nil))
	require.Equal(t, http.StatusNoContent, c.pop("out", "").Status)

	done := cycle(d.LeaseID, "2", work)
	require.True(t, done.Success, done.Error)
	require.Equal(t, 5, done.StateOpsApplied)
	require.Equal(t, "q", *done.QueueName)
	require.Equal(t, 2, done.AckResult.Count)
	require.True(t, done.AckResult.LeaseReleased, "the lease must end, so that the remaining messages are available")
	all := []string{"a=1", `b%={"windowEnd":10}`, `b_={"windowEnd":20.5}`, "c=2"}
	require.Equal(t, all, c.state(query, partition, nil))
	require.Equal(t, all[1:2], c.state(query, partition, object{"key_prefix": "b%"}), "a prefix must not be used as a pattern")
	require.Equal(t, all[1:3], c.state(query, partition, object{"key_prefix": "b"}))
	require.Equal(t, all[1:2], c.state(query, partition, object{"ripe_at_or_before": 20}))
	require.Equal(t, all[:1], c.state(query, partition, object{"keys": []string{"a", "z"}}))
	require.Empty(t, c.state(query, partition, object{"keys": []string{"a"}, "ripe_at_or_before": 99}))
	require.Len(t, c.popIDs("out", "batch=9"), 2)

	d = pop(3)
	require.Equal(t, []string{"3", "4", "5"}, d.ids())
	again := cycle(d.LeaseID, "3", object{"release_lease": false, "push_items": work["push_items"], "state_ops": []object{{"type": "delete", "key": "a"}}})
	require.True(t, again.Success, again.Error)
	require.False(t, again.AckResult.LeaseReleased)
	require.Equal(t, all[1:], c.state(query, partition, nil))
	dead := cycle(d.LeaseID, "4", object{"ack": object{"transactionId": "4", "leaseId": d.LeaseID, "status": "failed", "error": "broken"}})
	require.True(t, dead.Success && dead.AckResult.DLQ, dead.Error)
	require.Equal(t, 1, c.dlq("queue=q").Total)
	require.Equal(t, []string{"5", "6"}, pop(9).ids())

	c.deleteQueue("q").ok(http.StatusOK)
	until(t, "the state is deleted with the queue", func() bool {
		var keys int
		c.scan(t, `SELECT count(*) FROM belfry.stream_state`, nil, &keys)
		return keys == 0
	})
}

// The ack of a cycle must cover all messages up to its message, even redriven dead letters, which other acks settle one by
// one. If an applied cycle is sent again, it must succeed again.
func TestACycleSettlesRedrivenMessages(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	query := c.register(object{"name": "sum", "source_queue": "q", "config_hash": "1"}).ok(http.StatusOK).QueryID
	group := "streams." + query
	c.pushIDs("q", "p", "1", "2", "3")
	c.deadLetterAll("q", group)
	ask[any](c, post("/api/v1/dlq/redrive", encode(object{"queue": "q", "consumerGroup": group, "all": true}))).ok(http.StatusOK)
	d := c.pop("q", "batch=9&consumerGroup="+group).ok(http.StatusOK)
	require.Equal(t, []string{"1", "2", "3"}, d.ids())
	for range 2 {
		done := c.cycle(object{
			"query_id": query, "partition_id": d.PartitionID, "consumer_group": group, "state_ops": []object{upsert("sum", 6)},
			"push_items": []object{{"queue": "out", "payload": 6}}, "ack": object{"transactionId": "3", "leaseId": d.LeaseID, "count": 3},
		})
		require.True(t, done.Success, done.Error)
	}
	require.Equal(t, http.StatusNoContent, c.pop("q", "consumerGroup="+group).Status, "all three messages must be settled")
	require.Len(t, c.popIDs("out", "batch=9"), 1)
}

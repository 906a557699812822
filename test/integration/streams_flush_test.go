package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two loops of a stream client read the same window at the same time. Only the first loop may emit it.
func TestAWindowIsEmittedOnce(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	query := c.register(object{"name": "sum", "source_queue": "q", "config_hash": "1"}).ok(http.StatusOK).QueryID
	group := "streams." + query
	partition := c.pushIDs("q", "p", "1", "2")[0].PartitionID
	cycle := func(more object) cycled {
		body := object{"query_id": query, "partition_id": partition, "consumer_group": group}
		for name, value := range more {
			body[name] = value
		}
		return c.cycle(body)
	}
	closed := func(key string) object {
		return object{
			"state_ops":  []object{{"type": "delete", "key": key}},
			"push_items": []object{{"queue": "out", "payload": key}},
		}
	}
	popped := func() delivery {
		return c.pop("q", "batch=9&wait=true&timeout=30000&consumerGroup="+group).ok(http.StatusOK)
	}
	emitted := func() int { return len(c.popIDs("out", "batch=9&autoAck=true")) }

	require.True(t, cycle(object{"state_ops": []object{upsert("a", 1), upsert("b", 1)}}).Success)
	require.True(t, cycle(closed("a")).Success)
	require.Equal(t, 1, emitted())
	second := cycle(closed("a"))
	require.False(t, second.Success)
	require.Contains(t, second.Error, "read the state again")
	require.Zero(t, emitted(), "a second flush must emit nothing")
	half := closed("b")
	half["state_ops"] = []object{{"type": "delete", "key": "a"}, {"type": "delete", "key": "b"}}
	require.False(t, cycle(half).Success)
	require.Equal(t, []string{"b=1"}, c.state(query, partition, nil), "a refused cycle must change nothing")

	// A refused cycle ends its lease. So its messages are delivered again, and the state is unchanged.
	d := popped()
	late := closed("a")
	late["ack"] = object{"transactionId": "2", "leaseId": d.LeaseID, "count": 2}
	require.False(t, cycle(late).Success)
	require.Zero(t, emitted())
	d = popped()
	require.Equal(t, []string{"1", "2"}, d.ids())
	now := closed("b")
	now["ack"] = object{"transactionId": "2", "leaseId": d.LeaseID, "count": 2}
	for range 2 { // the answer was lost, and the client sends the cycle again
		done := cycle(now)
		require.True(t, done.Success, done.Error)
	}
	require.Equal(t, 1, emitted())

	require.True(t, cycle(object{"state_ops": []object{{"type": "delete", "key": "none"}}}).Success, "a cycle may delete a missing key if it emits nothing")
	require.True(t, cycle(object{"state_ops": []object{upsert("c", 1)}, "push_items": []object{{"queue": "out", "payload": 1}}}).Success)
}

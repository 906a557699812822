package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/stopwatch"
)

func groupSeek(t *testing.T, a, b client, queue string) {
	a.pushIDs(queue, "p", "1")
	a.pushIDs(queue, "p", "2")
	a.pushIDs(queue, "o", "3")
	all := a.pop(queue, "consumerGroup=g&batch=9&partitions=9&autoAck=true").ok(http.StatusOK)
	at := map[string]string{}
	for _, m := range all.Messages {
		at[m.TransactionID] = m.CreatedAt
	}
	got := func(c client) []string {
		return c.popIDs(queue, "consumerGroup=g&batch=9&partitions=9&autoAck=true")
	}
	for _, c := range []struct {
		body string
		want []string
	}{
		{`{"toBeginning":true}`, []string{"1", "2", "3"}},
		{`{"timestamp":"` + at["1"] + `"}`, []string{"2", "3"}},
		{`{"timestamp":"1999-12-31"}`, []string{"1", "2", "3"}},
		{`{"timestamp":"` + at["3"] + `"}`, nil},
	} {
		require.Equal(t, 2, b.seek("g", queue, c.body).PartitionsUpdated, "those it has a cursor in")
		require.ElementsMatch(t, c.want, got(a), c.body)
		require.Empty(t, got(b))
	}
	b.seek("g", queue, `{"toBeginning":true}`)
	a.seek("g", queue, `{"toEnd":true}`)
	require.Empty(t, got(b))
	require.Zero(t, a.seek("unknown", queue, `{"toEnd":true}`).PartitionsUpdated)
	require.Zero(t, a.seek("g", queue+"-unknown", `{"toEnd":true}`).PartitionsUpdated)
}

func groupSeekFences(t *testing.T, a, b client, queue string) {
	a.pushIDs(queue, "p", "1", "2")
	old := a.pop(queue, "consumerGroup=g&batch=2").ok(http.StatusOK)
	b.seek("g", queue, `{"toBeginning":true}`)
	for _, one := range a.ackBatch("g", old.ack("completed")...).ok(http.StatusOK) {
		require.False(t, one.Success)
		require.Equal(t, "Invalid or expired lease", one.reason())
	}
	require.Equal(t, http.StatusNotFound, a.extend(old.LeaseID, `{}`).Status)
	fresh := a.pop(queue, "consumerGroup=g&batch=2").ok(http.StatusOK)
	require.Equal(t, []string{"1", "2"}, fresh.ids())
	require.True(t, b.ackBatch("g", fresh.ack("completed")...).ok(http.StatusOK)[1].Success)
}

func groupSeekWakes(t *testing.T, a, b client, queue string) {
	a.pushIDs(queue, "p", "1")
	require.Equal(t, []string{"1"}, a.popIDs(queue, "consumerGroup=g&autoAck=true"))
	for _, c := range []client{a, b} {
		waiting := c.begin(popCall(queue, "consumerGroup=g&autoAck=true&wait=true&timeout=60000"))
		c.untilParked(t, queue, 1)
		watch := stopwatch.Start(t)
		a.seek("g", queue, `{"toBeginning":true}`)
		require.Equal(t, []string{"1"}, waiting.delivery().ok(http.StatusOK).ids())
		watch.Within(t, wakeBound, "the seek wakes, not a timer")
	}
}

func groupSeekPartition(t *testing.T, a, b client, queue string) {
	partition := a.pushIDs(queue, "a/b", "1", "2")[0].PartitionID
	a.pushIDs(queue, "o", "3")
	createdAt := func(id string) string {
		return ask[struct{ CreatedAt string }](a, get("/api/v1/messages/"+partition+"/"+id)).ok(http.StatusOK).CreatedAt
	}
	first, last := createdAt("1"), createdAt("2")
	require.Len(t, a.popIDs(queue, "consumerGroup=g&batch=1"), 1)
	path := groupsPath + "/g/queues/" + q(queue) + "/partitions/"
	got := ask[seek](b, post(path+"a%2Fb/seek", "")).ok(http.StatusOK)
	require.True(t, got.Updated)
	require.Equal(t, last, *got.CursorMovedTo)
	require.Empty(t, a.popPartition(queue, "a/b", "consumerGroup=g").Raw)
	got = ask[seek](b, post(path+"a%2Fb/seek", `{"toBeginning":true}`)).ok(http.StatusOK)
	require.True(t, got.Updated)
	require.Nil(t, got.CursorMovedTo)
	require.Equal(t, []string{"1", "2"}, a.popPartition(queue, "a/b", "consumerGroup=g&batch=9").ok(http.StatusOK).ids())
	// The instant of a seek stays when messages are deleted: the newest one, and all.
	for _, id := range []string{"2", "1"} {
		ask[any](a, remove("/api/v1/messages/"+partition+"/"+id)).ok(http.StatusOK)
		got = ask[seek](b, post(path+"a%2Fb/seek", "")).ok(http.StatusOK)
		require.Equal(t, last, *got.CursorMovedTo, "after the deletion of %s", id)
		require.LessOrEqual(t, first, last)
	}
	missing := ask[seek](b, post(path+"unknown/seek", ""))
	require.Equal(t, http.StatusNotFound, missing.Status)
	require.Equal(t, "Partition not found", missing.failure)
}

// A seek before the first message goes to the first message, wherever the group began.
func groupSeekBeforeStart(t *testing.T, a, b client, queue string) {
	a.pushIDs(queue, "p", "1")
	require.Empty(t, a.popIDs(queue, "consumerGroup=g&subscriptionMode=new"))
	b.seek("g", queue, `{"timestamp":"1999-12-31"}`)
	require.Equal(t, []string{"1"}, a.popIDs(queue, "consumerGroup=g"))
}

func groupSeekReplaysDeadLetters(t *testing.T, a, b client, queue string) {
	a.pushIDs(queue, "p", "1", "2", "3")
	dead := func(c client) {
		d := c.pop(queue, "consumerGroup=g&batch=3").ok(http.StatusOK)
		require.Equal(t, []string{"1", "2", "3"}, d.ids())
		for _, one := range []struct {
			status string
			at     int
		}{{"dlq", 1}, {"completed", 0}, {"completed", 2}} {
			got := c.ackBatch("g", d.ack(one.status, one.at)...).ok(http.StatusOK)
			require.True(t, got[0].Success, got[0].reason())
		}
	}
	letters := func() (n int) {
		a.scan(t, `SELECT count(*) FROM belfry.dead_letter d JOIN belfry.partition p ON p.id = d.partition_id
			JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = $1`, []any{queue}, &n)
		return n
	}
	for _, c := range []client{a, b} {
		dead(c)
		require.Equal(t, 1, letters())
		require.Empty(t, a.popIDs(queue, "consumerGroup=g"))
		require.Equal(t, 1, b.seek("g", queue, `{"toBeginning":true}`).PartitionsUpdated)
	}
	require.Equal(t, 1, letters(), "the dead letter stays until it is purged or redriven")
}

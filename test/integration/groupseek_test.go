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
		require.Equal(t, 2, b.seek("g", queue, c.body).PartitionsUpdated, "a seek must update the partitions in which the group has a cursor")
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
		watch.Within(t, wakeBound, "time until a seek wakes the pop; a timer would take longer")
	}
}

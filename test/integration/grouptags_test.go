package integration_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func groupTagged(t *testing.T, a, b client, queue string) {
	ns := fmt.Sprintf("ns%x", time.Now().UnixNano())
	for _, task := range []string{"x", "y"} {
		a.pushIDs(ns+"."+task, "", "old "+task)
	}
	tags := "consumerGroup=g&subscriptionMode=new&autoAck=true&namespace=" + ns
	require.Empty(t, ask[delivery](b, popTaggedCall(tags)).raw)
	for _, task := range []string{"x", "y"} {
		a.pushIDs(ns+"."+task, "", "new "+task)
	}
	got := []string{}
	for range 2 {
		got = append(got, ask[delivery](a, popTaggedCall(tags)).ok(http.StatusOK).ids()...)
	}
	require.ElementsMatch(t, []string{"new x", "new y"}, got)

	// One delivers at once; the other is registered all the same.
	tags = "consumerGroup=h&subscriptionFrom=1999-12-31&autoAck=true&namespace=" + ns
	require.Len(t, ask[delivery](b, popTaggedCall(tags)).ok(http.StatusOK).ids(), 1)
	var joined int
	a.scan(t, `SELECT count(*) FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
		WHERE q.namespace = $1 AND g.name = 'h' AND g.whole_queue`, []any{ns}, &joined)
	require.Equal(t, 2, joined)

	// A queue that another instance creates later.
	tags = "consumerGroup=i&subscriptionMode=new&wait=true&timeout=60000&namespace=" + ns
	waiting := b.begin(popTaggedCall(tags))
	until(t, "it waits", func() bool {
		for _, g := range b.status(t).Groups {
			if g.Namespace == ns && g.Waiting == 1 {
				return true
			}
		}
		return false
	})
	a.pushIDs(ns+".z", "", "first of z")
	require.Equal(t, []string{"first of z"}, waiting.delivery().ok(http.StatusOK).ids())
}

func groupPriority(t *testing.T, a, b client, queue string) {
	ns := fmt.Sprintf("pr%x", time.Now().UnixNano())
	for _, one := range []struct {
		task     string
		priority int
	}{{"low", -1}, {"older", 0}, {"high", 7}, {"younger", 0}, {"highest", 9}} {
		a.send1(call{http.MethodPost, configurePath, encode(map[string]any{
			"queue": ns + "." + one.task, "namespace": ns, "options": map[string]any{"priority": one.priority},
		})})
		if one.task != "highest" { // it has nothing
			a.pushIDs(ns+"."+one.task, "", one.task)
		}
	}
	for _, c := range []client{a, b} {
		tags := fmt.Sprintf("autoAck=true&consumerGroup=g%p&namespace=%s", &c, ns)
		if c == b {
			require.Equal(t, []string{"high"}, ask[delivery](c, popTaggedCall(tags)).ok(http.StatusOK).ids(), "a new group")
			continue
		}
		var got []string
		for range 4 {
			got = append(got, ask[delivery](c, popTaggedCall(tags)).ok(http.StatusOK).ids()...)
		}
		require.Equal(t, []string{"high", "older", "younger", "low"}, got)
	}
	_ = queue
}

package integration_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/stopwatch"
)

// A new group with mode new on 5,000 partitions: its first pop answers and registers in under a second, and then
// receives all new messages. On a busy machine the bound is three times the duration of a push to a fifth of the
// partitions.
func TestNewGroupOnFiveThousandPartitions(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	const partitions, each = 5000, 1000
	bound := 2 * time.Second
	pushAll := func(round string) {
		for from := 0; from < partitions; from += each {
			items := make([]item, each)
			for i := range items {
				items[i] = item{Queue: "wide", Partition: fmt.Sprint("p", from+i), TransactionID: fmt.Sprint(round, " ", from+i)}
			}
			pushed := c.push(items...)
			pushed.ok(http.StatusCreated)
			bound = max(bound, 3*pushed.Took)
		}
	}
	pushAll("old")
	watch := stopwatch.Start(t)
	joining := func() bool { // a pop gives up after a second
		return c.pop("wide", "consumerGroup=g&subscriptionMode=new").Status == http.StatusServiceUnavailable
	}
	for joining() {
		watch.Within(t, patience, "the group is registered")
	}
	require.Empty(t, c.popIDs("wide", "consumerGroup=g"))
	t.Logf("registered in %s", watch.Elapsed())
	watch.Within(t, bound, "the group is registered")
	pushAll("new")
	seen := map[string]bool{}
	for {
		got := c.pop("wide", "consumerGroup=g&batch=1000&partitions=200&autoAck=true")
		if got.Status == http.StatusNoContent {
			break
		}
		for _, id := range got.body.ids() {
			require.False(t, seen[id], id)
			require.Contains(t, id, "new ")
			seen[id] = true
		}
	}
	require.Len(t, seen, partitions)
}

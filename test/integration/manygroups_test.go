package integration_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A queue has 1,100 groups. In a queue with more than 1,000 groups, a wake handles groups differently (docs/design.md).
// Requests of 20 groups wait at one instance, and the pushes go to another instance. Each group must get each message. A
// push may cause at most two entries in notifications: one for its partition, and one for the partition of the previous
// push. The pushes must cause no resync.
func TestPushesToManyGroupsCauseNoResync(t *testing.T) {
	t.Parallel()
	const groups, waiting, partitions, pushes = 1100, 20, 4, 15
	first := start(t, proven)
	pusher := first.client(t)
	for p := range partitions {
		pusher.pushIDs("q", fmt.Sprint("p", p), "before")
	}
	pusher.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue)
		SELECT q.id, 'g' || n, true FROM belfry.queue q, generate_series(1, $1::int) AS n WHERE q.name = 'q'`, groups)
	pusher.exec(`INSERT INTO belfry.cursor (partition_id, group_id, committed)
		SELECT p.id, g.id, p.last_seq FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id`)
	second := startOn(t, first.dsn, proven)
	first.untilProven(t, 1)
	second.untilProven(t, 1)
	popper := second.client(t)
	pop := func(group int) *pendingCall {
		return popper.begin(popCall("q", fmt.Sprintf("wait=true&timeout=60000&autoAck=true&consumerGroup=g%d", group)))
	}
	var pending []*pendingCall
	wait := func() {
		pending = pending[:0]
		for group := range waiting {
			pending = append(pending, pop(group+1))
		}
		second.untilParked(t, "q", waiting)
	}
	wait()
	resyncs := func() float64 {
		return second.metric(t, `belfry_dispatch_woken_total{source="sweep"}`) + second.metric(t, `belfry_listener_garbage_total`)
	}
	before, sent := resyncs(), first.metric(t, "belfry_notify_entries_out_total")
	for n := range pushes {
		id := fmt.Sprint("m", n)
		pusher.pushIDs("q", fmt.Sprint("p", rand.IntN(partitions)), id)
		for _, one := range pending {
			require.Equal(t, []string{id}, one.delivery().ok(http.StatusOK).ids())
		}
		if n < pushes-1 {
			wait()
		}
	}
	require.InDelta(t, before, resyncs(), 0)
	require.LessOrEqual(t, first.metric(t, "belfry_notify_entries_out_total")-sent, float64(2*pushes))
}

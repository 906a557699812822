package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// liveCounts has the counts of the queue q that the routes of the history return.
type liveCounts struct {
	Ingested, Processed, Stored                  int64 // status and status/analytics
	Pushed, Popped, Acked, QueuePushed, QueuePop int64 // worker-metrics
	OpsPushed, OpsPopped, OpsAcked               int64 // queue-ops
	LagPopped                                    int64 // queue-lag
	Waiting                                      int64 // queue-parked-replicas
	Latencies                                    bool  // every route has latencies
	Workers, Replicas                            int
}

// readLive asks all routes that return the history.
func readLive(t *testing.T, c client) (all liveCounts) {
	t.Helper()
	status := ask[statusBody](c, get("/api/v1/status?queue=q")).ok(http.StatusOK)
	for _, p := range status.Throughput {
		all.Ingested, all.Processed = all.Ingested+p.Ingested, all.Processed+p.Processed
	}
	all.Workers, all.Latencies = len(status.Workers), len(status.Queues) > 0 && status.Queues[0].P99Ms > 0
	type points struct{ DataPoints []struct{ Messages int64 } }
	for _, p := range ask[points](c, get("/api/v1/status/analytics?queue=q")).ok(http.StatusOK).DataPoints {
		all.Stored += p.Messages
	}
	metrics := ask[workerMetricsBody](c, get("/api/v1/analytics/worker-metrics?queue=q")).ok(http.StatusOK)
	all.Pushed, all.Popped, all.Acked = metrics.Summary.TotalPushMessages, metrics.Summary.TotalPopMessages, metrics.Summary.TotalAckMessages
	for _, q := range metrics.Queues {
		all.QueuePushed, all.QueuePop, all.Latencies = q.PushCount, q.PopCount, all.Latencies && q.P50Ms > 0
	}
	for _, row := range ask[queueOpsBody](c, get("/api/v1/analytics/queue-ops?queue=q")).ok(http.StatusOK).Series {
		all.OpsPushed, all.OpsPopped, all.OpsAcked = all.OpsPushed+row.PushMessages, all.OpsPopped+row.PopMessages, all.OpsAcked+row.AckSuccess
	}
	type lag struct {
		PopCount int64
		P99Ms    float64
	}
	for _, row := range ask[[]lag](c, get("/api/v1/analytics/queue-lag?queue=q")).ok(http.StatusOK) {
		all.LagPopped, all.Latencies = all.LagPopped+row.PopCount, all.Latencies && row.P99Ms > 0
	}
	type parked struct{ Series []struct{ ParkedCount int64 } }
	for _, row := range ask[parked](c, get("/api/v1/analytics/queue-parked-replicas?queue=q")).ok(http.StatusOK).Series {
		all.Waiting = max(all.Waiting, row.ParkedCount)
	}
	all.Replicas = len(ask[systemMetricsBody](c, get("/api/v1/analytics/system-metrics")).ok(http.StatusOK).Replicas)
	return all
}

// Every route of the history must count an event at once, at every instance, and only once. This must hold after the minute
// has ended, too.
func TestTheCurrentMinuteIsInEveryAnswer(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	a, b := startOn(t, dsn), startOn(t, dsn)
	a.untilProven(t, 1)
	b.untilProven(t, 1)
	clients := []client{a.client(t), b.client(t)}
	want := liveCounts{}
	for i, c := range clients {
		c.pushIDs("q", fmt.Sprint(i), "1", "2", "3")
		require.Len(t, c.pop("q", "batch=10&autoAck=true").ok(http.StatusOK).Messages, 3)
		want.Ingested, want.Processed = want.Ingested+3, want.Processed+3
	}
	n := want.Ingested
	want = liveCounts{
		Ingested: n, Processed: n, Stored: n, Pushed: n, Popped: n, Acked: n, QueuePushed: n, QueuePop: n, OpsPushed: n, OpsPopped: n, OpsAcked: n,
		LagPopped: n, Latencies: true, Workers: 2, Replicas: 2,
	}
	for _, c := range clients {
		var got liveCounts
		until(t, "the counts of both instances are in the answer", func() bool { got = readLive(t, c); return got == want || got.Ingested > n })
		require.Equal(t, want, got)
	}
	require.NoError(t, b.stop(t)) // an instance that stops writes its counts
	until(t, "the counts are written", func() bool {
		var rows int
		a.scan(t, "SELECT count(*) FROM belfry.history_instance", nil, &rows)
		return rows > 0
	})
	got := readLive(t, clients[0])
	require.Equal(t, want, got, "no event may be counted twice")
}

package integration_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Each answer and each metric counts the same failures: the messages that consumers could not process, that they gave back
// and that became dead letters, and the acknowledgments that were refused. The answers for a group count only its own.
func TestFailuresAreCountedEverywhere(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	c.configure("q", map[string]any{"retryLimit": 1, "retryDelay": 0}).ok(http.StatusOK)
	ack := func(group, partition, status string) {
		got := c.popPartition("q", partition, "consumerGroup="+group).ok(http.StatusOK)
		one := ackItem{TransactionID: got.Messages[0].TransactionID, PartitionID: got.Messages[0].PartitionID, LeaseID: got.LeaseID, ConsumerGroup: group, Status: status}
		require.True(t, c.ack(one).ok(http.StatusOK)[0].Success)
		if status == "completed" {
			require.False(t, c.ack(one).ok(http.StatusOK)[0].Success, "the lease has ended")
		}
	}
	for _, partition := range []string{"done", "fails", "dead", "back"} {
		c.pushIDs("q", partition, partition)
	}
	ack("g", "done", "completed")
	ack("g", "fails", "failed")
	ack("g", "fails", "failed") // the second failure makes a dead letter
	ack("g", "dead", "dlq")
	ack("g", "back", "retry")
	ack("h", "fails", "failed")

	want := api.Acknowledged{AckSuccess: 1, AckFailed: 3, DLQCount: 2, AckRetried: 1}
	of := func(query string) (points, queues, ops api.Acknowledged, summary api.WorkerSummary) {
		metrics := ask[api.WorkerMetrics](c, get("/api/v1/analytics/worker-metrics?live=false&queue=q"+query)).ok(http.StatusOK)
		for i := range metrics.TimeSeries {
			add(&points, metrics.TimeSeries[i].Acknowledged)
		}
		require.Len(t, metrics.Queues, 1)
		for _, b := range ask[api.QueueOps](c, get("/api/v1/analytics/queue-ops?live=false&queue=q"+query)).ok(http.StatusOK).Series {
			add(&ops, api.Acknowledged{AckSuccess: b.AckSuccess, AckFailed: b.AckFailed, DLQCount: b.DLQCount, AckRetried: b.AckRetried, AckRefused: b.AckRefused})
		}
		return points, metrics.Queues[0].Acknowledged, ops, metrics.Summary
	}
	points, queues, ops, summary := of("&consumerGroup=g")
	require.Equal(t, []api.Acknowledged{want, want, want}, []api.Acknowledged{points, queues, ops})
	require.Equal(t, []int64{5, 3, 2, 1}, []int64{summary.TotalAckMessages, summary.TotalAckFailed, summary.TotalDLQ, summary.TotalAckRetried})
	want.AckFailed++ // the failure of h
	points, queues, ops, _ = of("")
	require.Equal(t, []api.Acknowledged{want, want, want}, []api.Acknowledged{points, queues, ops})
	// A refused acknowledgment does not say its queue.
	all := ask[api.WorkerMetrics](c, get("/api/v1/analytics/worker-metrics?live=false")).ok(http.StatusOK)
	require.EqualValues(t, 1, all.Summary.TotalAckRefused)

	metrics, err := c.send(t.Context(), get("/metrics/prometheus"))
	require.NoError(t, err)
	for _, line := range []string{
		`belfry_ack_messages_total{result="success"} 1`, `belfry_ack_messages_total{result="failed"} 2`, `belfry_ack_messages_total{result="retried"} 1`,
		`belfry_ack_messages_total{result="dead_lettered"} 2`, `belfry_ack_messages_total{result="refused"} 1`,
		`belfry_queue_acks_total{queue="q"} 1`, `belfry_queue_acks_failed_total{queue="q"} 4`, `belfry_queue_acks_retried_total{queue="q"} 1`,
		`belfry_queue_acks_refused_total{queue="(other)"} 1`, `belfry_queue_dead_lettered_total{queue="q"} 2`,
	} {
		require.Contains(t, string(metrics.Raw), line+"\n")
	}
}

// add adds counts.
func add(sum *api.Acknowledged, more api.Acknowledged) {
	sum.AckSuccess, sum.AckFailed, sum.DLQCount = sum.AckSuccess+more.AckSuccess, sum.AckFailed+more.AckFailed, sum.DLQCount+more.DLQCount
	sum.AckRetried, sum.AckRefused = sum.AckRetried+more.AckRetried, sum.AckRefused+more.AckRefused
}

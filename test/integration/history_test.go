package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/test/pgtest"
)

type (
	throughputPoint struct {
		Timestamp                                                                             string
		Ingested, Processed, PopMessages, AckFailed, DLQCount, AvgLagMs, MaxLagMs, DBPoolSize int64
		QueenRssMb                                                                            float64
	}
	statusBody struct {
		BucketMinutes, PointCount int
		Throughput                []throughputPoint
		Queues                    []struct {
			Name                string
			P50Ms, P95Ms, P99Ms float64
		}
		Messages struct {
			Total, Pending, DeadLetter int64
			Requests                   struct{ Push, Pop, Ack int64 }
		}
		Workers []struct{ MessagesProcessed int64 }
		Errors  struct{ AckFailed, DLQMessages int64 }
	}
	queueOpsBody struct {
		Series []struct {
			QueueName                                                                             string
			PushRequests, PushMessages, PopMessages, PopEmpty, AckRequests, AckSuccess, AckFailed int64
			Transactions, PartitionsCreated, PartitionCount, ParkedCount                          int64
			P99Ms                                                                                 float64
		}
		Queues []string
	}
	workerMetricsBody struct {
		TimeSeries []struct{ PushMessages, PopMessages, AckSuccess, DBConnections int64 }
		Queues     []struct {
			QueueName string
			PushCount int64
			PopCount  int64
			P50Ms     float64
		}
		Summary struct{ TotalPushMessages, TotalPopMessages, TotalAckMessages, TotalAckRequests, TotalDLQ, PendingMessages int64 }
	}
	systemMetricsBody struct {
		Replicas []struct {
			Hostname   string
			TimeSeries []struct {
				Metrics struct {
					Memory struct {
						RssBytes struct{ Last float64 } `json:"rss_bytes"`
					}
					Database struct {
						PoolSize struct{ Avg float64 } `json:"pool_size"`
					}
				}
			}
		}
	}
)

// The answers of every instance must have the counts of an instance that has stopped. That instance writes its last minute
// when it stops.
func TestTheHistoryHasCorrectNumbers(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	gone := startOn(t, dsn)
	c := gone.client(t)
	c.pushIDs("a", "p", "1", "2", "3", "4", "5")
	c.pushIDs("a", "p", "1", "6") // message 1 is a duplicate
	c.pushIDs("b", "", "1")
	got := c.pop("a", "batch=4&consumerGroup=g").ok(http.StatusOK)
	require.Len(t, got.Messages, 4)
	ack := func(id, status string) {
		ask[any](c, post("/api/v1/ack", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":"g","status":%q}`,
			id, got.Messages[0].PartitionID, got.LeaseID, status))).ok(http.StatusOK)
	}
	ack("2", "completed") // completes messages 1 and 2
	ack("3", "dlq")
	ack("9", "completed") // there is no such message
	require.Equal(t, http.StatusNoContent, c.pop("none", "").Status)
	ask[any](c, post("/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"b","payload":1},{"queue":"b","payload":2}]}]}`)).ok(http.StatusOK)
	raw := func(target string) string {
		got, err := c.send(t.Context(), get(target))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.Status, "%s", got.Raw)
		return string(got.Raw)
	}
	metrics := raw("/metrics/prometheus")
	for _, want := range []string{
		`belfry_queue_push_messages_total{queue="a"} 6`, `belfry_queue_push_messages_total{queue="b"} 3`, `belfry_queue_pop_messages_total{queue="a"} 4`,
		`belfry_queue_dead_lettered_total{queue="a"} 1`, `belfry_queue_transactions_total{queue="b"} 1`,
	} {
		require.Contains(t, metrics, want+"\n")
	}
	require.NoError(t, gone.stop(t))

	c = startOn(t, dsn).client(t)
	var status statusBody
	until(t, "the second server has read the rows", func() bool {
		status = ask[statusBody](c, get("/api/v1/status")).ok(http.StatusOK)
		return len(status.Throughput) > 0
	})
	require.Equal(t, 1, status.BucketMinutes)
	require.GreaterOrEqual(t, status.PointCount, 60, "each minute of the hour must have a point")
	var sum throughputPoint
	for _, point := range status.Throughput {
		sum.Ingested, sum.Processed, sum.PopMessages = sum.Ingested+point.Ingested, sum.Processed+point.Processed, sum.PopMessages+point.PopMessages
		sum.AckFailed, sum.DLQCount = sum.AckFailed+point.AckFailed, sum.DLQCount+point.DLQCount
		sum.DBPoolSize, sum.QueenRssMb = sum.DBPoolSize+point.DBPoolSize, sum.QueenRssMb+point.QueenRssMb
	}
	require.Positive(t, sum.DBPoolSize)
	require.Positive(t, sum.QueenRssMb)
	sum.DBPoolSize, sum.QueenRssMb = 0, 0
	require.Equal(t, throughputPoint{Ingested: 9, Processed: 2, PopMessages: 4, AckFailed: 1, DLQCount: 1}, sum)
	require.EqualValues(t, 1, status.Messages.DeadLetter)
	require.EqualValues(t, 9, status.Messages.Total)
	require.EqualValues(t, 3, status.Messages.Requests.Push)
	require.EqualValues(t, 3, status.Messages.Requests.Ack)
	require.Len(t, status.Workers, 2, "an idle instance must be listed too")
	require.EqualValues(t, 4, status.Workers[0].MessagesProcessed+status.Workers[1].MessagesProcessed)

	ops := map[string]int64{}
	for _, row := range ask[queueOpsBody](c, get("/api/v1/analytics/queue-ops")).ok(http.StatusOK).Series {
		ops[row.QueueName+" pushed"] += row.PushMessages
		ops[row.QueueName+" popped"] += row.PopMessages
		ops[row.QueueName+" empty"] += row.PopEmpty
		ops[row.QueueName+" acked"] += row.AckSuccess
		ops[row.QueueName+" transactions"] += row.Transactions
		ops[row.QueueName+" created"] += row.PartitionsCreated
		if row.PopMessages > 0 {
			require.Positive(t, row.P99Ms)
		}
	}
	for name, want := range map[string]int64{"a pushed": 6, "b pushed": 3, "a popped": 4, "none empty": 1, "a acked": 1, "b transactions": 1, "a created": 1} {
		require.Equal(t, want, ops[name], name)
	}
	require.Equal(t, []string{"a", "none"}, ask[api.QueueOps](c, get("/api/v1/analytics/queue-ops?live=false&queues=none&queues=a")).ok(http.StatusOK).Queues)
	require.NotContains(t, raw("/api/v1/analytics/queue-ops?queue=a"), `"partitionCount":0`)
	require.NotContains(t, strings.ReplaceAll(raw("/api/v1/analytics/queue-ops?queue=a&live=false"), `"partitionCount":0`, ""), `partitionCount`)
	require.Contains(t, raw("/api/v1/analytics/worker-metrics?live=false"), `"pendingMessages":0`)
	workers := ask[workerMetricsBody](c, get("/api/v1/analytics/worker-metrics?queue=a")).ok(http.StatusOK)
	require.EqualValues(t, 6, workers.Summary.TotalPushMessages)
	require.EqualValues(t, 4, workers.Summary.TotalPopMessages)
	require.EqualValues(t, 1, workers.Summary.TotalDLQ)
	require.Len(t, workers.Queues, 1)
	require.Positive(t, workers.Queues[0].P50Ms)
	require.NotEmpty(t, ask[systemMetricsBody](c, get("/api/v1/analytics/system-metrics")).ok(http.StatusOK).Replicas[0].TimeSeries)
	require.Contains(t, raw("/api/v1/analytics/queue-lag?queue=a"), `"popCount":4`)
	require.Contains(t, raw("/api/v1/status/analytics?interval=day&queue=b"), `"messages":3`)
	require.Contains(t, raw("/api/v1/analytics/postgres-stats"), `"table":"message"`)
	var buffers string
	c.scan(t, "SHOW shared_buffers", nil, &buffers)
	require.Contains(t, raw("/api/v1/analytics/postgres-stats"), `{"name":"shared_buffers","value":"`+buffers+`"`)
	ask[any](c, get("/metrics")).ok(http.StatusOK)
	ask[any](c, post("/api/v1/stats/refresh", "")).ok(http.StatusOK)
}

// A row has a number of waiting requests. The number applies to each minute until the next row of its series, but for at
// most an hour.
func TestCountsOfWaitingRequestsLastUntilTheNextRow(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	now := time.Now().UTC().Truncate(time.Minute)
	s.scan(t, `WITH i AS (INSERT INTO belfry.history_instance SELECT $1::timestamptz - m * interval '1 minute', 1, '00000000-0000-4000-8000-000000000001', 'host', 6632, 7,
			1, 1, 1, 1, 1, 1, 1, 1, 1 FROM unnest(ARRAY[180, 100, 90]) m RETURNING at, instance),
		h AS (INSERT INTO belfry.history SELECT i.at, 1, i.instance, 'q', 'g', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}',
			CASE extract(epoch FROM $1::timestamptz - i.at) WHEN 90 * 60 THEN 5 ELSE 9 END FROM i RETURNING 1) SELECT count(*) FROM h`, []any{now}, new(int))
	waiting := func(from, to int) (counts []int64) {
		at := func(minutes int) string { return now.Add(-time.Duration(minutes) * time.Minute).Format(time.RFC3339) }
		body := ask[queueOpsBody](c, get("/api/v1/analytics/queue-ops?from="+at(from)+"&to="+at(to))).ok(http.StatusOK)
		for _, row := range body.Series {
			counts = append(counts, row.ParkedCount)
		}
		return counts
	}
	require.Equal(t, []int64{5, 5, 9, 9}, waiting(92, 88))
	require.Equal(t, []int64{9, 9}, waiting(117, 115), "the first row must count for an hour")
	require.Empty(t, waiting(104, 102))
	require.Equal(t, []int64{5}, waiting(25, 24))
	require.Empty(t, waiting(10, 5))
	require.Contains(t, string(ask[any](c, get("/api/v1/analytics/queue-parked-replicas?from="+now.Add(-2*time.Hour).Format(time.RFC3339))).Raw), `"hostname":"host"`)
}

func TestInvalidHistoryRequestsAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	c := start(t).client(t).loose()
	refused := func(target, want string) {
		got := ask[any](c, get(target))
		require.Equal(t, http.StatusBadRequest, got.Status, "%s: %s", target, got.Raw)
		require.Contains(t, got.failure, want)
	}
	for query, want := range map[string]string{
		"from=yesterday": "from is \"yesterday\"",
		"from=2026-05-16T09:00:00Z&to=2026-05-16T08:00:00Z": "from must be before to",
		"from=2020-01-01&to=2026-01-01":                     "send a later from or an earlier to",
	} {
		for _, path := range []string{
			"status", "analytics/system-metrics", "analytics/worker-metrics", "analytics/queue-lag", "analytics/queue-ops", "analytics/queue-parked-replicas", "analytics/retention",
		} {
			refused("/api/v1/"+path+"?"+query, want)
		}
	}
	refused("/api/v1/analytics/queue-ops?live=false&task=t", "remove namespace and task")
	refused("/api/v1/status/analytics?interval=week", "it must be minute, hour or day")
	refused("/api/v1/status/analytics?interval=minute&from="+time.Now().Add(-72*time.Hour).UTC().Format(time.RFC3339), "send a longer interval")
	for span, minutes := range map[time.Duration]int{time.Hour: 1, 6 * time.Hour: 5, 24 * time.Hour: 15, 7 * 24 * time.Hour: 60, 8 * 24 * time.Hour: 360} {
		from := time.Now().Add(-span).UTC().Format(time.RFC3339Nano)
		body := string(ask[any](c, get("/api/v1/analytics/retention?from="+from+"&to="+time.Now().UTC().Add(-time.Second).Format(time.RFC3339Nano))).Raw)
		require.Contains(t, body, fmt.Sprintf(`"bucketMinutes":%d`, minutes))
	}
}

package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// sumsQueue is the source of a streams query that sums the messages of windows. sumsSink receives the sums of
// complete windows. Both are not in the history: Sums compares the tables.
const (
	sumsQueue = "chaos.sums"
	sumsSink  = "chaos.sums.out"
)

const (
	sumsPartitions = 4
	sumsWorkers    = 2
	// sumsWindow is the number of messages per window.
	sumsWindow = 20
	// shortestSum and longestSum limit the random pauses of the producer. mostSummed is the maximum number of
	// messages per push.
	shortestSum, longestSum = 10 * time.Millisecond, 60 * time.Millisecond
	mostSummed              = 10
	// mostSumWait is the wait of a pop.
	mostSumWait = time.Second
)

// windowSum is the payload of a message of the source, the state of a window, and the payload of a message of the
// sink.
type windowSum struct {
	Partition string `json:"partition"`
	Window    int    `json:"window"`
	Sum       int    `json:"sum"`
}

// workSums starts the clients of the query.
func (c *Clients) workSums(ctx, stop context.Context, all *sync.WaitGroup) {
	producer := c.client("producer-sums")
	all.Go(func() { producer.feedSums(ctx, stop) })
	for n := range sumsWorkers {
		one := c.client(fmt.Sprintf("sums-%d", n+1))
		all.Go(func() { one.sum(ctx, stop) })
	}
}

// feedSums pushes numbers. It repeats a push until the push succeeds.
func (c *client) feedSums(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	var pushed [sumsPartitions]int
	for pause(stop, c.upTo(shortestSum, longestSum)) {
		n := c.choose.IntN(sumsPartitions)
		items := []map[string]any{}
		for range 1 + c.choose.IntN(mostSummed) {
			one := windowSum{Partition: partitionName(n), Window: pushed[n] / sumsWindow, Sum: 1 + c.choose.IntN(100)}
			items = append(items, map[string]any{
				"queue": sumsQueue, "partition": one.Partition, "transactionId": fmt.Sprint(pushed[n]), "payload": one,
			})
			pushed[n]++
		}
		for body := encode(map[string]any{"items": items}); c.send(ctx, http.MethodPost, "/api/v1/push", body, 0).Status != http.StatusCreated; {
			if !pause(ctx, c.upTo(shortestPush, longestPush)) {
				return
			}
		}
	}
}

// sum pops messages and sends their cycles until stop ends. It forgets some deliveries, and sends some cycles late.
func (c *client) sum(ctx, stop context.Context) {
	defer c.http.CloseIdleConnections()
	var query struct {
		ID string `json:"query_id"`
	}
	body := encode(map[string]any{"name": "sums", "source_queue": sumsQueue, "sink_queue": sumsSink, "config_hash": "1"})
	for !c.call(ctx, "/streams/v1/queries", body, &query) {
		if !pause(stop, idlePause) {
			return
		}
	}
	group := "streams." + query.ID
	for stop.Err() == nil {
		found := c.popSums(ctx, group)
		if len(found) == 0 {
			pause(stop, idlePause)
			continue
		}
		late := c.chance(5)
		switch {
		case c.chance(5):
			continue
		case late:
			pause(ctx, LeaseTime+overdue)
		}
		for id, messages := range found {
			if c.cycle(ctx, query.ID, id, messages) && late {
				c.clients.complain("%s: a cycle was applied although its lease had ended", c.name)
			}
		}
	}
}

// summed is a message of the source.
type summed struct {
	PartitionID   string    `json:"partitionId"`
	TransactionID string    `json:"transactionId"`
	LeaseID       string    `json:"leaseId"`
	Data          windowSum `json:"data"`
}

// popSums pops messages of the source, and returns them grouped by partition.
func (c *client) popSums(ctx context.Context, group string) map[string][]summed {
	target := fmt.Sprintf("/api/v1/pop/queue/%s?consumerGroup=%s&batch=15&partitions=2&wait=true&timeout=%d", sumsQueue, group, mostSumWait.Milliseconds())
	got := c.send(ctx, http.MethodGet, target, "", mostSumWait)
	var d struct {
		Messages []summed `json:"messages"`
	}
	if got.Status != http.StatusOK || json.Unmarshal(got.Raw, &d) != nil {
		return nil
	}
	found := map[string][]summed{}
	for _, m := range d.Messages {
		found[m.PartitionID] = append(found[m.PartitionID], m)
	}
	return found
}

// call sends a POST and decodes the body of a 200. It returns false for any other status or an invalid body.
func (c *client) call(ctx context.Context, path, body string, into any) bool {
	got := c.send(ctx, http.MethodPost, path, body, 0)
	return got.Status == http.StatusOK && json.Unmarshal(got.Raw, into) == nil
}

// cycle adds messages to the sums of their windows, and pushes the complete windows. It reports whether the server
// applied the cycle. It sometimes sends the cycle twice.
func (c *client) cycle(ctx context.Context, query, partition string, messages []summed) bool {
	var state struct {
		Rows []struct {
			Value *windowSum `json:"value"`
		} `json:"rows"`
	}
	if !c.call(ctx, "/streams/v1/state/get", encode(map[string]any{"query_id": query, "partition_id": partition}), &state) {
		return false
	}
	var sums []*windowSum
	for _, row := range state.Rows {
		sums = append(sums, row.Value)
	}
	latest := 0
	for _, m := range messages {
		latest = m.Data.Window
		at := slices.IndexFunc(sums, func(one *windowSum) bool { return one.Window == latest })
		if at < 0 {
			at, sums = len(sums), append(sums, &windowSum{Partition: m.Data.Partition, Window: latest})
		}
		sums[at].Sum += m.Data.Sum
	}
	ops, items := []map[string]any{}, []map[string]any{}
	for _, one := range sums {
		if key := fmt.Sprint(one.Window); one.Window < latest {
			ops = append(ops, map[string]any{"type": "delete", "key": key})
			items = append(items, map[string]any{"queue": sumsSink, "partition": one.Partition, "payload": one})
		} else {
			ops = append(ops, map[string]any{"type": "upsert", "key": key, "value": one})
		}
	}
	last := messages[len(messages)-1]
	body := encode(map[string]any{
		"query_id": query, "partition_id": partition, "consumer_group": "streams." + query, "state_ops": ops, "push_items": items,
		"ack": map[string]any{"transactionId": last.TransactionID, "leaseId": last.LeaseID, "count": len(messages)},
	})
	var done struct {
		Success bool `json:"success"`
	}
	applied := c.call(ctx, "/streams/v1/cycle", body, &done) && done.Success
	if c.chance(needless) {
		applied = c.call(ctx, "/streams/v1/cycle", body, &done) && done.Success || applied
	}
	return applied
}

// wrongSums compares, per window, the sum of the acknowledged messages with the sum in the sink or in the state. It
// returns the windows that differ. One statement reads one snapshot and a cycle is one transaction, so the sums must
// be equal at any time.
const wrongSums = `
WITH queues AS (
    SELECT q.id, q.name FROM belfry.queue q WHERE q.name IN ($1, $2) AND q.deleted_at IS NULL
), acknowledged AS (
    SELECT m.payload ->> 'partition' AS partition, m.payload ->> 'window' AS number, sum((m.payload ->> 'sum')::bigint) AS sum
      FROM queues q
      JOIN belfry.partition p ON p.queue_id = q.id
      JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name LIKE 'streams.%'
      JOIN belfry.cursor c ON c.partition_id = p.id AND c.group_id = g.id
      JOIN belfry.message m ON m.partition_id = p.id AND m.seq <= c.committed
     WHERE q.name = $1
     GROUP BY 1, 2
), summed AS (
    SELECT m.payload AS value
      FROM queues q
      JOIN belfry.partition p ON p.queue_id = q.id
      JOIN belfry.message m ON m.partition_id = p.id
     WHERE q.name = $2
     UNION ALL
    SELECT s.value FROM belfry.stream_state s
), windows AS (
    SELECT s.value ->> 'partition' AS partition, s.value ->> 'window' AS number, (s.value ->> 'sum')::bigint AS sum FROM summed s
)
SELECT (SELECT count(*) FROM windows),
       coalesce((SELECT string_agg(format('%s/%s: %s instead of %s', partition, number, w.sum, a.sum), ', ')
                   FROM acknowledged a FULL JOIN windows w USING (partition, number)
                  WHERE w.sum IS DISTINCT FROM a.sum), '')`

// Sums complains about windows whose sum is not exact, and returns the number of windows.
func (c *Clients) Sums(ctx context.Context, database *pgxpool.Pool) (windows int64, err error) {
	var wrong string
	if err := database.QueryRow(ctx, wrongSums, sumsQueue, sumsSink).Scan(&windows, &wrong); err != nil {
		return 0, fmt.Errorf("comparing the sums of windows: %w", err)
	}
	if wrong != "" {
		c.complain("windows have wrong sums: %s", wrong)
	}
	return windows, nil
}

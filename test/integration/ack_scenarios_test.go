package integration_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scenario is a partition with the messages m1 to mN. The test has popped the first of them as one batch.
type scenario struct {
	client
	queue string
	first delivery
}

// given configures a queue, stores m1 to mN in one partition and pops a batch of them.
func given(t *testing.T, s *server, stored, batch int, options map[string]any) scenario {
	t.Helper()
	g := scenario{client: s.client(t), queue: t.Name()}
	g.configure(g.queue, options).ok(http.StatusOK)
	g.pushIDs(g.queue, "p", []string{"m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"}[:stored]...)
	g.first = g.take(batch)
	require.Len(t, g.first.Messages, batch)
	return g
}

// take pops up to n messages. It fails the test if there is no message.
func (g scenario) take(n int) delivery {
	g.t.Helper()
	return g.pop(g.queue, fmt.Sprintf("batch=%d", n)).ok(http.StatusOK)
}

func (g scenario) requireEmpty() {
	g.t.Helper()
	require.Empty(g.t, g.popIDs(g.queue, "batch=9"))
}

// say acknowledges messages of a delivery in one call. Without indexes it acknowledges all messages. All acks must succeed.
func (g scenario) say(d delivery, status string, indexes ...int) []acked {
	g.t.Helper()
	results := g.ackBatch("", d.ack(status, indexes...)...).ok(http.StatusOK)
	for _, one := range results {
		require.True(g.t, one.Success, "%s: %s", one.TransactionID, one.reason())
	}
	return results
}

// expire ends the leases of the queue.
func (g scenario) expire() {
	g.t.Helper()
	g.elapse(g.queue, time.Hour)
}

// deadLetters returns the transaction ids, attempts and reasons of the dead letters of a queue.
func (g scenario) deadLetters() (ids []string, attempts []int, reasons []string) {
	g.t.Helper()
	g.scan(g.t, `SELECT coalesce(array_agg(m.transaction_id ORDER BY m.seq), '{}'), coalesce(array_agg(l.attempts ORDER BY m.seq), '{}'),
	       coalesce(array_agg(l.error ORDER BY m.seq), '{}')
	  FROM belfry.dead_letter l
	  JOIN belfry.message m ON m.partition_id = l.partition_id AND m.seq = l.seq
	  JOIN belfry.partition p ON p.id = l.partition_id
	  JOIN belfry.queue q ON q.id = p.queue_id
	 WHERE q.name = $1`, []any{g.queue}, &ids, &attempts, &reasons)
	return ids, attempts, reasons
}

const leaseGone = "Invalid or expired lease"

// TestAckScenarios has the numbered ack scenarios of the API that is compatible with Queen MQ. Where that API allows two
// answers, the test requires the better answer.
func TestAckScenarios(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, s *server){
		"01 all completed":                          scenario01,
		"02 only the last completed":                scenario02,
		"03 some completed, then expiry":            scenario03,
		"04 one completed, then one failed":         scenario04,
		"05 all failed":                             scenario05,
		"06 all failed until they are dead letters": scenario06,
		"07 one failed in the middle":               scenario07,
		"08 lease expired, popped again":            scenario08,
		"09 lease expired":                          scenario09,
		"10 without a lease id":                     scenario10,
		"11 completed twice":                        scenario11,
		"12 completed before the cursor":            scenario12,
		"13 two groups":                             scenario13,
		"14 many partitions, one lease":             scenario14,
		"15 autoAck":                                scenario15,
		"16 retry":                                  scenario16,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s)
		})
	}
}

func scenario01(t *testing.T, s *server) {
	g := given(t, s, 5, 5, nil)
	results := g.say(g.first, "completed")
	require.Len(t, results, 5)
	require.True(t, results[4].released())
	g.requireEmpty()
}

func scenario02(t *testing.T, s *server) {
	g := given(t, s, 5, 5, nil)
	require.True(t, g.say(g.first, "completed", 4)[0].released(), "the ack of the last message must complete the whole batch")
	g.requireEmpty()
	g.pushIDs(g.queue, "p", "m6")
	require.Equal(t, []string{"m6"}, g.take(5).ids(), "the next message must be available at once")
}

func scenario03(t *testing.T, s *server) {
	g := given(t, s, 5, 5, map[string]any{"retryLimit": 1})
	for _, one := range g.say(g.first, "completed", 0, 1) {
		require.False(t, one.released())
	}
	g.requireEmpty()
	g.expire()
	again := g.take(5)
	require.Equal(t, []string{"m3", "m4", "m5"}, again.ids())
	require.NotEqual(t, g.first.LeaseID, again.LeaseID)
	require.Equal(t, 2, again.Messages[0].Attempt)
	require.False(t, g.say(again, "failed", 0)[0].DLQ, "an expiry must not count as a failure")
	require.True(t, g.say(g.take(5), "failed", 0)[0].DLQ)
}

func scenario04(t *testing.T, s *server) {
	g := given(t, s, 5, 5, map[string]any{"retryLimit": 1})
	require.False(t, g.say(g.first, "completed", 0)[0].released())
	failed := g.say(g.first, "failed", 1)[0]
	require.True(t, failed.released())
	require.False(t, failed.DLQ)
	again := g.take(5)
	require.Equal(t, []string{"m2", "m3", "m4", "m5"}, again.ids(), "the failed message must be available at once")
	require.True(t, g.say(again, "failed", 0)[0].DLQ, "the earlier failure must be counted")
}

func scenario05(t *testing.T, s *server) {
	g := given(t, s, 5, 5, map[string]any{"retryLimit": 3})
	for _, one := range g.say(g.first, "failed") {
		require.True(t, one.released())
		require.False(t, one.DLQ)
	}
	again := g.take(5)
	require.Equal(t, []string{"m1", "m2", "m3", "m4", "m5"}, again.ids())
	require.Equal(t, 2, again.Messages[0].Attempt)
}

func scenario06(t *testing.T, s *server) {
	g := given(t, s, 5, 5, map[string]any{"retryLimit": 3})
	d := g.first
	for range 3 {
		for _, one := range g.say(d, "failed") {
			require.False(t, one.DLQ, "one call must count as one failure")
		}
		d = g.take(5)
		require.Len(t, d.Messages, 5)
	}
	fourth := d.ack("failed")
	fourth[1].Error = "because"
	for _, one := range g.ackBatch("", fourth...).ok(http.StatusOK) {
		require.True(t, one.Success, one.reason())
		require.True(t, one.DLQ)
		require.True(t, one.released())
	}
	ids, attempts, reasons := g.deadLetters()
	require.Equal(t, []string{"m1", "m2", "m3", "m4", "m5"}, ids)
	require.Equal(t, []int{3, 3, 3, 3, 3}, attempts)
	require.Equal(t, []string{"Retries exhausted", "because", "Retries exhausted", "Retries exhausted", "Retries exhausted"}, reasons)
	g.requireEmpty()

	g.pushIDs(g.queue, "p", "m6")
	require.False(t, g.say(g.take(1), "failed")[0].DLQ, "the next batch must start without failures")
	require.Equal(t, []string{"m6"}, g.take(1).ids())
}

func scenario07(t *testing.T, s *server) {
	g := given(t, s, 5, 3, nil)
	mixed := g.first.ack("completed")
	mixed[1].Status = "failed"
	results := g.ackBatch("", mixed...).ok(http.StatusOK)
	require.True(t, results[0].Success)
	require.True(t, results[1].Success)
	require.True(t, results[1].released())
	require.False(t, results[2].Success, "the message is delivered again, so this ack must fail")
	require.NotEmpty(t, results[2].reason())
	require.Equal(t, []string{"m2", "m3", "m4", "m5"}, g.take(5).ids())
}

func scenario08(t *testing.T, s *server) {
	g := given(t, s, 5, 5, nil)
	g.expire()
	again := g.pop(g.queue, "batch=5").ok(http.StatusOK)
	require.Len(t, again.Messages, 5)
	for _, status := range []string{"completed", "failed", "retry", "dlq"} {
		for _, one := range g.ackBatch("", g.first.ack(status)...).ok(http.StatusOK) {
			require.False(t, one.Success, status)
			require.Equal(t, leaseGone, one.reason(), status)
			require.False(t, one.DLQ, status)
		}
	}
	require.Equal(t, http.StatusNotFound, g.extend(g.first.LeaseID, `{}`).Status)
	g.requireEmpty()
	ids, _, _ := g.deadLetters()
	require.Empty(t, ids)
	require.True(t, g.say(again, "completed")[4].released(), "the lease of the second pop must be unchanged")
}

func scenario09(t *testing.T, s *server) {
	g := given(t, s, 5, 5, nil)
	g.expire()
	for _, one := range g.ackBatch("", g.first.ack("completed")...).ok(http.StatusOK) {
		require.False(t, one.Success)
		require.Equal(t, leaseGone, one.reason())
	}
	require.Equal(t, []string{"m1", "m2", "m3", "m4", "m5"}, g.take(5).ids())
}

func scenario10(t *testing.T, s *server) {
	g := given(t, s, 5, 2, nil)
	for _, lease := range []string{"", "null"} {
		body := `{"transactionId":"` + map[string]string{"": "m1", "null": "m2"}[lease] + `","partitionId":"` + g.first.PartitionID + `"`
		if lease != "" {
			body += `,"leaseId":null,"consumerGroup":null,"error":null,"status":null`
		}
		one := ask[[]acked](g.client, post(ackPath, body+"}")).ok(http.StatusOK)[0]
		require.True(t, one.Success, one.reason())
		require.Equal(t, lease == "null", one.released(), "an ack without a lease id must count for the batch of the live lease")
	}
	require.Equal(t, []string{"m3", "m4", "m5"}, g.take(5).ids())
}

func scenario11(t *testing.T, s *server) {
	g := given(t, s, 5, 5, nil)
	g.say(g.first, "completed", 0)
	for range 5 {
		require.False(t, g.say(g.first, "completed", 1)[0].released(), "repeated acks must count once")
	}
	twice := append(g.first.ack("completed", 1), g.first.ack("completed", 1, 2)...)
	for _, one := range g.ackBatch("", twice...).ok(http.StatusOK) {
		require.True(t, one.Success, one.reason())
	}
	g.requireEmpty()
	require.False(t, g.say(g.first, "completed", 3)[0].released())
	require.True(t, g.say(g.first, "completed", 4)[0].released())
	g.requireEmpty()
}

func scenario12(t *testing.T, s *server) {
	g := given(t, s, 5, 5, nil)
	g.say(g.first, "completed", 3)
	require.False(t, g.say(g.first, "completed", 1)[0].released(), "an ack of a completed message must change nothing")
	require.False(t, g.say(g.first, "failed", 0)[0].released(), "a failed ack of a completed message must change nothing")
	g.say(g.first, "retry", 4)
	require.Equal(t, []string{"m5"}, g.take(5).ids(), "the cursor must not move back")
}

func scenario13(t *testing.T, s *server) {
	g := given(t, s, 5, 5, nil)
	all := []string{"m1", "m2", "m3", "m4", "m5"}
	a := g.pop(g.queue, "batch=5&consumerGroup=A").ok(http.StatusOK)
	require.Equal(t, all, a.ids(), "the lease of another group must not matter")
	for _, one := range g.ackBatch("A", a.ack("completed")...).ok(http.StatusOK) {
		require.True(t, one.Success, one.reason())
	}
	b := g.pop(g.queue, "batch=5&consumerGroup=B").ok(http.StatusOK)
	require.Equal(t, all, b.ids())
	for _, one := range g.ackBatch("A", b.ack("completed")...).ok(http.StatusOK) {
		require.Equal(t, leaseGone, one.reason(), "a lease must not be valid for another group")
	}
	require.Empty(t, g.popIDs(g.queue, "consumerGroup=A"))
	require.True(t, g.ackBatch("B", b.ack("completed")...).ok(http.StatusOK)[4].released())
	require.True(t, g.say(g.first, "completed")[4].released())
}

func scenario14(t *testing.T, s *server) {
	c := s.client(t)
	queue := t.Name()
	c.pushIDs(queue, "p1", "a1", "a2", "a3")
	c.pushIDs(queue, "p2", "b1", "b2")
	d := c.pop(queue, "batch=5&partitions=2").ok(http.StatusOK)
	require.Equal(t, 2, d.PartitionsClaimed)
	places := map[string][]int{}
	for i, m := range d.Messages {
		require.Equal(t, d.LeaseID, m.LeaseID, "all partitions must have the same lease")
		places[m.Partition] = append(places[m.Partition], i)
	}
	require.Len(t, places["p1"], 3)
	require.Len(t, places["p2"], 2)

	results := c.ackBatch("", d.ack("completed", places["p1"]...)...).ok(http.StatusOK)
	require.True(t, results[2].released())
	c.pushIDs(queue, "p1", "a4")
	c.pushIDs(queue, "p2", "b3")
	second := c.pop(queue, "batch=5&partitions=2").ok(http.StatusOK)
	require.Equal(t, []string{"a4"}, second.ids(), "only p1 may be popped, because p2 is leased")

	extended := c.extend(d.LeaseID, `{"seconds":3600}`).ok(http.StatusOK)
	var first, other bool
	c.scan(t, `SELECT bool_or(p.name = 'p1' AND c.lease_until > now() + interval '10 minutes'),
	       bool_or(p.name = 'p2' AND c.lease_until > now() + interval '10 minutes')
	  FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id JOIN belfry.queue q ON q.id = p.queue_id
	 WHERE q.name = $1`, []any{queue}, &first, &other)
	require.False(t, first, "p1 has a newer lease, so the extension must not change it")
	require.True(t, other, "p2 must be extended to %v", extended.NewExpiresAt)

	require.Equal(t, leaseGone, c.ack(ackItem{TransactionID: "a4", PartitionID: second.PartitionID, LeaseID: d.LeaseID}).body[0].reason())
	require.True(t, c.ackBatch("", d.ack("completed", places["p2"]...)...).ok(http.StatusOK)[1].released())
	require.Equal(t, []string{"b3"}, c.pop(queue, "batch=5&partitions=2").ok(http.StatusOK).ids())
}

func scenario15(t *testing.T, s *server) {
	c := s.client(t)
	queue := t.Name()
	c.pushIDs(queue, "p", "m1", "m2", "m3")
	d := c.pop(queue, "batch=2&autoAck=true").ok(http.StatusOK)
	require.Equal(t, []string{"m1", "m2"}, d.ids())
	require.Empty(t, d.LeaseID)
	require.Equal(t, []string{"m3"}, c.popIDs(queue, "batch=5&autoAck=true"), "autoAck must consume the messages and take no lease")
	require.Empty(t, c.popIDs(queue, ""))
	after := c.ackBatch("", d.ack("completed")...).ok(http.StatusOK)
	require.True(t, after[1].Success, "an ack of a consumed message must be accepted")
	require.Equal(t, []string{"m1"}, c.popIDs(queue, "consumerGroup=other"))
}

func scenario16(t *testing.T, s *server) {
	g := given(t, s, 5, 5, map[string]any{"retryLimit": 0})
	g.say(g.first, "completed", 0)
	d := g.first
	for range 3 {
		retried := g.say(d, "retry", len(d.Messages)-1)[0]
		require.True(t, retried.released())
		require.False(t, retried.DLQ)
		d = g.take(5)
		require.Equal(t, []string{"m2", "m3", "m4", "m5"}, d.ids(), "a retry must make the messages after the cursor available at once")
	}
	require.True(t, g.say(d, "failed", 0)[0].DLQ, "with retryLimit 0 the first failure must make a dead letter")
}

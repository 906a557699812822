package integration_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/httpcall"
)

// A commit that the synchronous standby has not confirmed is visible, but it can still be lost. So the server must not
// acknowledge it. If the wait for the standby is canceled, Postgres reports success, but the request must fail. A repeated
// request finds its message stored. It must also fail until the standby confirms.
func TestNothingUnconfirmedIsAcknowledged(t *testing.T) {
	t.Parallel()
	primary, standby := replicated(t)
	require.NoError(t, primary.CreateDatabase(t.Context(), "unconfirmed"))
	s := startOn(t, primary.URL("unconfirmed"), proven)
	c := s.client(t)
	for _, id := range []string{"acked", "consumed", "cycled", "deleted", "purged", "redriven"} {
		c.pushIDs(id, "p", "m")
	}
	c.pushIDs("left", "p", "m")
	c.deadLetterAll("purged", "g")
	c.deadLetterAll("redriven", "g")
	leased := c.pop("acked", "batch=1").ok(http.StatusOK)
	partition := c.pop("cycled", "batch=1").ok(http.StatusOK).PartitionID
	query := c.register(object{"name": "known", "source_queue": "cycled", "config_hash": "1"}).ok(http.StatusOK).QueryID
	gone := c.register(object{"name": "gone", "source_queue": "cycled", "config_hash": "1"}).ok(http.StatusOK).QueryID
	c.pushIDs("handed", "p", "m")
	c.pop("handed", "batch=1&autoAck=true").ok(http.StatusOK)
	left := c.pop("left", "batch=1&autoAck=true").ok(http.StatusOK).Messages[0]

	doors := map[string]call{
		"push":                     pushCall(item{Queue: "pushed", TransactionID: "1"}),
		"transaction":              transactCall(nil, pushing(item{Queue: "moved", TransactionID: "1"})),
		"transaction without ids":  transactCall(nil, pushing(item{Queue: "moved", Partition: "b"})),
		"ack":                      post(ackPath, encode(leased.ack("completed")[0])),
		"acks":                     post(batchPath, encode(object{"acknowledgments": leased.ack("completed")})),
		"push for the waiting pop": pushCall(item{Queue: "handed", Partition: "p", TransactionID: "1"}),
		"pop that consumes":        get("/api/v1/pop/queue/consumed?autoAck=true"),
		"cycle":                    post("/streams/v1/cycle", encode(object{"query_id": query, "partition_id": partition, "state_ops": []object{upsert("k", 1)}, "push_items": []object{{"queue": "out", "transactionId": "1", "payload": 1}}})),
		"registered query":         post("/streams/v1/queries", encode(object{"name": "new", "source_queue": "cycled", "config_hash": "1"})),
		"deleted query":            remove("/api/v1/streams/" + gone),
		"configured queue":         post(configurePath, `{"queue":"configured","options":{"leaseTime":7}}`),
		"deleted queue":            remove("/api/v1/resources/queues/deleted"),
		"deleted message":          remove("/api/v1/messages/" + left.PartitionID + "/m"),
		"purged dead letter":       remove("/api/v1/dlq?queue=purged"),
		"streamed redrive":         post("/api/v1/dlq/redrive/stream", `{"queue":"redriven","consumerGroup":"g","all":true}`),
		"paused queue":             post("/api/v1/resources/queues/purged/pause", `{}`),
		"sought group":             post("/api/v1/consumer-groups/g/queues/purged/seek", `{"toEnd":true}`),
	}
	waiting := c.begin(get("/api/v1/pop/queue/handed?autoAck=true&wait=true&timeout=60000"))
	s.untilParked(t, "handed", 1)
	require.NoError(t, standby.Stop(t.Context()))
	for _, round := range []string{"first", "again"} {
		answers := map[string]*pendingCall{"waiting pop": waiting}
		for door, what := range doors {
			answers[door] = c.begin(what)
		}
		cancelWaits(t, primary.URL("unconfirmed"), answers)
		for door, pending := range answers {
			pending.ends()
			require.NoError(t, pending.err, door)
			got := pending.reply
			require.True(t, got.Status == http.StatusServiceUnavailable || streamFailed(got), "%s, %s: %d %.300s", door, round, got.Status, got.Raw)
		}
	}
	require.NoError(t, standby.Restart(t.Context()))
	for door, what := range doors {
		got, err := s.send(t.Context(), what)
		require.NoError(t, err)
		require.Less(t, got.Status, http.StatusMultipleChoices, "%s, with the standby: %.300s", door, got.Raw)
		require.NotEqual(t, http.StatusNoContent, got.Status, "%s, with the standby", door)
		require.False(t, streamFailed(got), "%s, with the standby: %.300s", door, got.Raw)
	}
	require.Equal(t, []string{"1"}, c.pop("handed", "batch=1&autoAck=true").ok(http.StatusOK).ids(), "the message that the waiting pop consumed must be delivered again")
}

// streamFailed reports whether an answer is a stream of events that ended with an error.
func streamFailed(got httpcall.Reply) bool {
	return bytes.Contains(got.Raw, []byte("event: closing")) && bytes.Contains(got.Raw, []byte(`"reason":"error"`))
}

// A push whose wait for the standby was canceled must not be acknowledged, even if a later statement of its round trip
// fails.
func TestAnUnconfirmedPushWithoutItsWakeIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	primary, standby := replicated(t)
	require.NoError(t, primary.CreateDatabase(t.Context(), "unconfirmed"))
	dsn := primary.URL("unconfirmed")
	c := startOn(t, dsn, proven).client(t)
	c.pushIDs("q", "p", "first")
	admin := producer(t, dsn)
	locking, err := producer(t, dsn).Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, standby.Stop(t.Context()))
	_, err = locking.Exec(t.Context(), "LOCK TABLE belfry.cursor") // the wake needs this table, and the push does not
	require.NoError(t, err)
	pending := c.begin(pushCall(item{Queue: "q", Partition: "p", TransactionID: "second"}))
	var pid int
	until(t, "the commit waits for the standby", func() bool {
		return admin.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&pid) == nil
	})
	until(t, "the wake waits for the lock", func() bool {
		var waits bool
		require.NoError(t, admin.QueryRow(t.Context(), `SELECT coalesce(wait_event_type = 'Lock', false) FROM pg_stat_activity WHERE pid = $1
			AND pg_cancel_backend(CASE WHEN wait_event = 'SyncRep' THEN pid END) IS DISTINCT FROM false`, pid).Scan(&waits))
		return waits
	})
	_, err = admin.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid)
	require.NoError(t, err)
	pending.ends()
	require.NoError(t, pending.err)
	require.Equal(t, http.StatusServiceUnavailable, pending.reply.Status, "%.300s", pending.reply.Raw)
	require.NoError(t, locking.Rollback(t.Context()))
	require.NoError(t, standby.Restart(t.Context()))
}

// cancelWaits cancels every wait for a standby, again and again, until all calls are answered.
func cancelWaits(t *testing.T, dsn string, pending map[string]*pendingCall) {
	t.Helper()
	conn := producer(t, dsn)
	for _, one := range pending {
		until(t, "all calls are answered", func() bool {
			_, err := conn.Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
			require.NoError(t, err)
			select {
			case <-one.done:
				return true
			default:
				return false
			}
		})
	}
}

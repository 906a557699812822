package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const breakerPath = groupsPath + "/" + queue.DefaultGroup + "/queues/q/breaker"

func (c client) breaker() api.BreakerState {
	c.t.Helper()
	return ask[api.BreakerState](c, get(breakerPath)).ok(http.StatusOK)
}

// popIn sends pops that wait, alternately to the servers. Each delivery goes into the channel. A pop without a delivery fails the test.
func popIn(t *testing.T, pops int, servers ...*server) <-chan delivery {
	t.Helper()
	got := make(chan delivery, pops)
	for i := range pops {
		c := servers[i%len(servers)].client(t)
		go func() {
			reply, err := c.send(t.Context(), popCall("q", "wait=true&timeout=60000"))
			var d delivery
			if err == nil && reply.Status == http.StatusOK && json.Unmarshal(reply.Raw, &d) == nil {
				got <- d
			}
		}()
	}
	return got
}

func receiveOne(t *testing.T, from <-chan delivery) delivery {
	t.Helper()
	select {
	case d := <-from:
		require.Len(t, d.Messages, 1)
		return d
	case <-time.After(patience):
		require.Fail(t, "no pop got a message")
		return delivery{}
	}
}

// Three failures in a row open the breaker, on all instances and after a restart. Then exactly one lease passes to twenty consumers.
// Its failure doubles the pause, and its success closes the breaker, which wakes all consumers.
func TestTheBreakerOfAGroup(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	there := startOn(t, s.dsn, proven)
	there.untilProven(t, 1)
	c := s.client(t)
	known(c, "q")
	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status)
	const consumers = 20
	for p := range consumers {
		c.pushIDs("q", fmt.Sprint("p", p), fmt.Sprint(p))
	}
	c.setLimits(limitsOf(queue.DefaultGroup), `{"breaker":{"failures":3,"pause":"2s"}}`)
	fail := func(d delivery) {
		item := d.ack("failed", 0)[0]
		item.Error = "connection refused"
		require.True(t, c.ack(item).ok(http.StatusOK)[0].Success)
	}
	for range 3 {
		require.Equal(t, "closed", c.breaker().State)
		fail(c.pop("q", "").ok(http.StatusOK))
	}
	b := there.client(t).breaker()
	require.Equal(t, []any{"open", int64(1), "failures", "3 failures in a row: connection refused"}, []any{b.State, b.Openings, *b.OpenedBy, *b.Reason})
	require.InDelta(t, 2, b.Until.Sub(*b.OpenedAt).Seconds(), 0.01)

	require.NoError(t, there.stop(t))
	there = startOn(t, s.dsn, proven)
	there.untilProven(t, 1)
	got := popIn(t, consumers, s, there)
	for pauses := 2.0; pauses <= 4; pauses *= 2 {
		probe := receiveOne(t, got)
		require.False(t, time.Now().Before(*b.Until), "the breaker let a lease pass during its pause")
		for _, at := range []*server{s, there} {
			require.Equal(t, http.StatusNoContent, at.client(t).pop("q", "").Status)
			require.Equal(t, http.StatusNoContent, at.client(t).pop("q", "autoAck=true").Status)
		}
		require.Empty(t, got, "a second lease passed")
		b = c.breaker()
		require.Equal(t, []any{"half-open", true}, []any{b.State, b.Probing})
		if pauses == 4 {
			require.True(t, c.ack(probe.ack("completed", 0)[0]).ok(http.StatusOK)[0].Success)
			break
		}
		fail(probe)
		b = c.breaker()
		require.Equal(t, []any{"open", int64(2), "probe"}, []any{b.State, b.Openings, *b.OpenedBy})
		require.Greater(t, time.Until(*b.Until), 2*time.Second, "the pause has doubled")
	}
	require.Equal(t, "closed", c.breaker().State)
	for range consumers - 2 { // two got the probes
		receiveOne(t, got)
	}
	var actions []string
	for _, entry := range c.audit("limit=100").Entries {
		if entry.ConsumerGroup == queue.DefaultGroup && entry.Action != "limits.set" {
			actions = append(actions, entry.Action)
		}
	}
	require.Equal(t, []string{"breaker.close", "breaker.probe", "breaker.open", "breaker.probe", "breaker.open"}, actions)
}

// A probe that ends without an ack has failed. A probe that is released lets the next lease pass at once.
func TestAProbeThatEndsWithoutAnAck(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	known(c, "q")
	for p := range 4 {
		c.pushIDs("q", fmt.Sprint("p", p), fmt.Sprint(p))
	}
	c.setLimits(limitsOf(queue.DefaultGroup), `{"breaker":{"failures":1,"pause":"1s"}}`)
	pass := func() delivery {
		return c.pop("q", "wait=true&timeout=60000").ok(http.StatusOK)
	}
	require.True(t, c.ack(pass().ack("failed", 0)[0]).ok(http.StatusOK)[0].Success)
	released := pass()
	require.True(t, c.ack(released.ack("retry", 0)[0]).ok(http.StatusOK)[0].Success)
	pass()
	require.EqualValues(t, 1, c.breaker().Openings, "a release is no failure")
	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status)
	c.exec(`UPDATE belfry.cursor SET lease_until = clock_timestamp(), ready_at = clock_timestamp() WHERE lease_id IS NOT NULL`)
	var popped int
	c.scan(t, `SELECT count(*) FROM belfry.pop('q')`, nil, &popped)
	require.Zero(t, popped, "the breaker is open again")
	b := c.breaker()
	require.Equal(t, "open", b.State)
	require.Greater(t, time.Until(*b.Until), time.Second)
	until(t, "a consumer in SQL gets the next lease", func() bool {
		c.scan(t, `SELECT count(*) FROM belfry.pop('q')`, nil, &popped)
		return popped == 1
	})
	require.False(t, time.Now().Before(*b.Until))
	require.EqualValues(t, 2, c.breaker().Openings)
}

// pausing is an ack that asks for a pause of its group.
func pausing(d delivery, status string, seconds any) call {
	item := d.ack(status, 0)[0]
	return post("/api/v1/ack", encode(map[string]any{
		"transactionId": item.TransactionID, "partitionId": item.PartitionID, "leaseId": item.LeaseID, "status": status, "pauseGroup": seconds, "error": "503",
	}))
}

// A consumer whose service is down pauses its group with one ack. Without a breaker the ack is refused, and the message stays leased.
func TestAConsumerPausesItsGroup(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	known(c, "q")
	c.pushIDs("q", "p", "1")
	c.pushIDs("q", "p2", "2")
	d := c.pop("q", "").ok(http.StatusOK)
	for status, seconds := range map[string]any{"failed": 30, "completed": 1} {
		require.Equal(t, http.StatusBadRequest, ask[api.Error](c.loose(), pausing(d, status, seconds)).Status)
	}
	for _, seconds := range []any{0, -1, 86401, "30"} {
		require.Equal(t, http.StatusBadRequest, ask[api.Error](c.loose(), pausing(d, "retry", seconds)).Status, seconds)
	}
	refused := ask[[]acked](c, pausing(d, "retry", 30)).ok(http.StatusOK)[0]
	require.False(t, refused.Success)
	require.Contains(t, *refused.Error, "has no breaker")
	require.Equal(t, http.StatusConflict, ask[api.Error](c, post(breakerPath+"/open", "{}")).Status)

	c.setLimits(limitsOf(queue.DefaultGroup), `{"breaker":{"failures":100}}`)
	accepted := ask[[]acked](c, pausing(d, "retry", 30)).ok(http.StatusOK)[0]
	require.True(t, accepted.Success)
	b := c.breaker()
	require.Equal(t, []any{"open", "client", "a consumer asked for a pause: 503"}, []any{b.State, *b.OpenedBy, *b.Reason})
	require.InDelta(t, 30, time.Until(*b.Until).Seconds(), 10)
	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status)
	require.True(t, ask[api.BreakerChanged](c, post(breakerPath+"/close", "")).ok(http.StatusOK).Changed)
	require.False(t, ask[api.BreakerChanged](c, post(breakerPath+"/close", "")).ok(http.StatusOK).Changed)
	d = c.pop("q", "").ok(http.StatusOK)

	c.exec(`SELECT belfry.ack($1, status => 'retry', pause_group => '1 minute')`, d.Messages[0].LeaseID)
	require.Equal(t, "open", c.breaker().State)
}

// opened gives the default group a breaker, and opens it. The message m waits.
func opened(c client, q string) {
	c.t.Helper()
	c.pushIDs(q, "empty", "0")
	drain(c, q)
	c.limit(q, "breaker_failures, breaker_pause, breaker_pause_max", "1, '1 hour', '1 hour'")
	c.pushIDs(q, "first", "m")
	c.exec(`SELECT belfry.open_breaker($1, $2)`, q, queue.DefaultGroup)
	require.Equal(c.t, http.StatusNoContent, c.pop(q, "").Status)
}

func init() {
	maps.Copy(transitions, map[string]transition{
		"operator closes a breaker": {
			prepare: opened,
			happens: func(c client, q string) {
				require.Equal(c.t, http.StatusOK, ask[api.BreakerChanged](c, post(groupsPath+"/"+queue.DefaultGroup+"/queues/"+q+"/breaker/close", "")).Status)
			},
		},
		"breaker closed in SQL": {
			prepare: opened,
			happens: func(c client, q string) { c.exec(`SELECT belfry.close_breaker($1, $2)`, q, queue.DefaultGroup) },
		},
	})
}

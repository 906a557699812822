package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// limit sets limits of the default group by columns of belfry.group_limit.
func (c client) limit(queueName, columns, values string) {
	c.t.Helper()
	c.exec(fmt.Sprintf(`INSERT INTO belfry.group_limit (queue_id, group_name, %s)
		SELECT q.id, $2, %s FROM belfry.queue q WHERE q.name = $1`, columns, values), queueName, queue.DefaultGroup)
	c.exec(`UPDATE belfry.consumer_group g SET limits_id = belfry.limits_of(g.queue_id, g.name)`)
}

// oneLease gives the default group of the queue one lease at a time, and takes it. The message m waits in another partition. A
// queue that does not exist gets the tags of its name.
func oneLease(c client, q string) {
	c.t.Helper()
	c.pushIDs(q, "empty", "0")
	drain(c, q)
	c.limit(q, "concurrency", "1")
	c.pushIDs(q, "first", "first")
	take(c, q)
	c.pushIDs(q, "second", "m")
	require.Equal(c.t, http.StatusNoContent, c.pop(q, "").Status)
}

// limitTransitions are rows of transitions: what gives a limited group room.
var limitTransitions = map[string]transition{
	"ack that ends a lease of a limited group": {
		prepare: oneLease,
		happens: func(c client, q string) { finish(c, q, "completed") },
	},
	"ack that ends a lease of a limited group, for a pop that names a partition": {
		prepare: oneLease,
		waits:   func(q string) call { return popPartitionCall(q, "second", "wait=true&timeout=60000") },
		happens: func(c client, q string) { finish(c, q, "completed") },
	},
	"ack that ends a lease of a limited group, for a pop by tags": {
		prepare: func(c client, q string) { oneLease(c, "ns-"+q+".task") },
		waits:   func(q string) call { return popTaggedCall("wait=true&timeout=60000&namespace=ns-" + q) },
		happens: func(c client, q string) { finish(c, "ns-"+q+".task", "completed") },
	},
	"ack in SQL that ends a lease of a limited group": {
		prepare: oneLease,
		happens: func(c client, q string) {
			c.exec(`SELECT belfry.ack(c.lease_id) FROM belfry.cursor c WHERE c.lease_id IS NOT NULL AND c.partition_id = ANY (ARRAY (
				SELECT p.id FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = $1))`, q)
		},
	},
	"lease of a limited group expires": {
		prepare: func(c client, q string) {
			options(c, q, "leaseTime", 1)
			c.limit(q, "concurrency", "1")
			c.pushIDs(q, "first", "first")
			c.pushIDs(q, "second", "m")
		},
		in: time.Second,
	},
	"push to a limited group": {
		prepare: func(c client, q string) {
			known(c, q)
			c.limit(q, "concurrency, rate_messages, rate_per, rate_burst", "1, 100, '1 s', 100")
		},
		happens: func(c client, q string) { c.pushIDs(q, "", "m") },
	},
	"rate of a limited group has a token": {
		prepare: func(c client, q string) {
			known(c, q)
			c.limit(q, "rate_messages, rate_per, rate_burst", "1, '2 s', 1")
			c.pushIDs(q, "first", "first")
			c.pushIDs(q, "second", "m")
		},
		in: 2 * time.Second,
	},
}

func init() { maps.Copy(transitions, limitTransitions) }

// A claim must get at most the tokens that are there. Further pops must get nothing until the instant of the next token.
func TestADeliveryIsCutToTheTokens(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	known(c, "q")
	c.limit("q", "rate_messages, rate_per, rate_burst", "3, '1 hour', 3")
	c.pushIDs("q", "p", "1", "2", "3", "4", "5")
	c.pushIDs("q", "p2", "6")
	require.Equal(t, []string{"1", "2"}, c.popIDs("q", "batch=2&autoAck=true"))
	got := c.popPartition("q", "p", "batch=9").ok(http.StatusOK)
	require.Equal(t, []string{"3"}, got.ids())
	for _, query := range []string{"", "autoAck=true", "batch=9"} {
		require.Equal(t, http.StatusNoContent, c.pop("q", query).Status, query)
	}
	var popped int
	c.scan(t, `SELECT count(*) FROM belfry.pop('q')`, nil, &popped)
	require.Zero(t, popped)
}

// The limit must hold for pops over HTTP and in SQL together, on all instances. The end of each lease must let one waiting pop
// through.
func TestTheLeasesOfAGroupAreLimited(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	there := startOn(t, s.dsn, proven)
	there.untilProven(t, 1)
	c := s.client(t)
	known(c, "q")
	const limit, partitions = 4, 40
	c.limit("q", "concurrency", fmt.Sprint(limit))
	for p := range partitions {
		c.pushIDs("q", fmt.Sprint("p", p), fmt.Sprint(p))
	}
	done := make(chan string, partitions)
	for i := range 20 {
		consumer := []*server{s, there}[i%2].client(t)
		go func() {
			for {
				reply, err := consumer.send(t.Context(), popCall("q", "wait=true&timeout=60000"))
				var d delivery
				if err != nil || reply.Status != http.StatusOK || json.Unmarshal(reply.Raw, &d) != nil {
					return
				}
				done <- d.Messages[0].TransactionID
				if _, err = consumer.send(t.Context(), ackCall(d.ack("completed", 0)[0])); err != nil {
					return
				}
			}
		}()
	}
	watching, err := pgx.Connect(t.Context(), s.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, watching.Close(context.Background())) })
	var got []string
	most := 0
	for len(got) < partitions {
		select {
		case id := <-done:
			got = append(got, id)
		case <-time.After(patience):
			require.FailNow(t, "a limited group does not go on", "%d of %d", len(got), partitions)
		}
		var live int
		require.NoError(t, watching.QueryRow(t.Context(), `SELECT count(*) FROM belfry.cursor c WHERE c.lease_until > clock_timestamp()`).Scan(&live))
		most = max(most, live)
	}
	require.LessOrEqual(t, most, limit)
	require.Positive(t, most)
	slices.Sort(got)
	require.Len(t, slices.Compact(got), partitions)
}

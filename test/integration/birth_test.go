package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	model "github.com/belfry-mq/belfry/pkg/queue"
)

// looks returns the number of wakes after which requests probed. It leaves out resyncs, because a slow machine may cause
// them.
func (s *server) looks(t *testing.T) (sum float64) {
	t.Helper()
	for _, source := range []string{"local", "notify", "handoff", "timer"} {
		for _, outcome := range []string{"delivered", "spurious"} {
			sum += s.metric(t, fmt.Sprintf(`belfry_dispatch_wakes_total{outcome=%q,source=%q}`, outcome, source))
		}
	}
	return sum
}

// Many requests wait for a queue that does not exist. The creation of the queue must wake only as many requests as there
// are messages, at the same instance and at another one.
func TestCreationWakesOnlyAsManyRequestsAsThereAreMessages(t *testing.T) {
	t.Parallel()
	const many, partitions = 150, 5
	for where, elsewhere := range map[string]bool{"here": false, "elsewhere": true} {
		for how, c := range map[string]struct {
			query  string
			byTags bool
			want   int
			create func(c client, queue string)
		}{
			"by a push": {want: partitions, create: func(c client, queue string) {
				var items []item
				for p := range partitions {
					items = append(items, item{Queue: queue, Partition: fmt.Sprint("p", p), TransactionID: fmt.Sprint(p)})
				}
				c.push(items...).ok(http.StatusCreated)
			}},
			"without messages": {create: func(c client, queue string) { c.configure(queue, nil).ok(http.StatusOK) }},
			"without messages, for tags": {byTags: true, create: func(c client, queue string) {
				c.configureTagged(queue, "ns-"+queue)
			}},
			"and then a push, for tags": {byTags: true, want: 1, create: func(c client, queue string) {
				c.configureTagged(queue, "ns-"+queue)
				c.pushIDs(queue, "", "m")
			}},
		} {
			t.Run(where+" "+how, func(t *testing.T) {
				t.Parallel()
				waitsAt := start(t, proven)
				waitsAt.untilProven(t, 0)
				happensAt := waitsAt
				if elsewhere {
					happensAt = startOn(t, waitsAt.dsn, proven)
					waitsAt.untilProven(t, 1)
					happensAt.untilProven(t, 1)
				}
				what := popCall("q", "wait=true&timeout=120000&autoAck=true")
				if c.byTags {
					what = get("/api/v1/pop?namespace=ns-q&wait=true&timeout=120000&autoAck=true")
				}
				popper := waitsAt.client(t)
				pops := &crowd{server: waitsAt, ended: make(chan *pendingCall, many)}
				defer pops.explain(t)
				for range many {
					pops.add(popper.begin(what))
				}
				waitsAt.untilParked(t, "q", many)
				before := waitsAt.looks(t)
				c.create(happensAt.client(t), "q")
				for range c.want {
					pops.delivery(t)
				}
				waitsAt.untilGroupKnows(t, "q")
				waitsAt.untilParked(t, "q", many-c.want)
				require.LessOrEqual(t, waitsAt.looks(t)-before, float64(4*(c.want+2)))
				// The other requests must still wait for the created queue.
				happensAt.client(t).pushIDs("q", "late", "late")
				pops.delivery(t)
			})
		}
	}
}

// crowd has pops that wait for the same.
type crowd struct {
	*server
	calls []*pendingCall
	// ended receives each call that has ended.
	ended chan *pendingCall
}

func (c *crowd) add(one *pendingCall) {
	c.calls = append(c.calls, one)
	go func() { <-one.done; c.ended <- one }()
}

// delivery waits until the next pop ends, and requires that it got one message.
func (c *crowd) delivery(t *testing.T) {
	t.Helper()
	one := receive(t, c.ended, "one of the pops is answered")
	require.NoError(t, one.err)
	require.Len(t, read[delivery](t, one.reply).ok(http.StatusOK).Messages, 1)
}

// explain logs, if the test has failed, what each pop answered and what the server says about itself.
func (c *crowd) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	answers := map[string]int{}
	for _, one := range c.calls {
		select {
		case <-one.done:
			answers[fmt.Sprintf("status %d after %s, error %v: %.300s", one.reply.Status, one.reply.Took, one.err, one.reply.Raw)]++
		default:
			answers["no answer yet"]++
		}
	}
	for answer, n := range answers {
		t.Logf("%d pops: %s", n, answer)
	}
	for _, target := range []string{"/api/v1/status/dispatcher", "/api/v1/resources/queues/q", "/metrics/prometheus"} {
		got, err := c.send(t.Context(), get(target))
		for line := range strings.Lines(string(got.Raw)) {
			if !strings.HasPrefix(target, "/metrics") || strings.HasPrefix(line, "belfry_dispatch_") {
				t.Logf("%s: status %d, error %v: %s", target, got.Status, err, line)
			}
		}
	}
}

// configureTagged creates a queue with a namespace.
func (c client) configureTagged(queue, namespace string) {
	c.t.Helper()
	body := fmt.Sprintf(`{"queue":%q,"namespace":%q,"options":{}}`, queue, namespace)
	c.send1(post("/api/v1/configure", body))
}

// untilGroupKnows waits until the default group exists in the queue. A request creates it when it probes.
func (s *server) untilGroupKnows(t *testing.T, queue string) {
	t.Helper()
	until(t, "a request has created the group", func() (exists bool) {
		s.scan(t, `SELECT EXISTS (SELECT 1 FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
			WHERE q.name = $1 AND g.name = $2)`, []any{queue, model.DefaultGroup}, &exists)
		return exists
	})
}

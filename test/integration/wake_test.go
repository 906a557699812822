package integration_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

const (
	// wakeBound is the time limit of a wake. It is far below the fallback interval, so only a wake can meet it.
	wakeBound = 8 * time.Second
	// clockSlack allows for the precision of the database clock, which is one microsecond.
	clockSlack = 5 * time.Millisecond
)

// transition is an event that makes a message ready. Its functions prepare a queue, return the call that waits, and cause
// the event.
type transition struct {
	// prepare prepares the queue. nil means that the queue is created without messages.
	prepare func(c client, queue string)
	// waits returns the waiting call. nil means a pop of any partition.
	waits func(queue string) call
	// happens causes the event. nil means the end of a lease, which is taken before the pop waits and ends by itself.
	happens func(c client, queue string)
	// in is the time from the event until the message is ready.
	in time.Duration
	// want are the ids of the delivered messages. The empty string means only m.
	want string
}

// transitions tests the wake table of docs/design.md. A waiting pop at the same instance or at another one must receive the
// message at once. To see which rows depend on a source of wakes, remove the source and run `go test -run TestWake`.
var transitions = map[string]transition{
	"push that claims for the waiting pop": {
		happens: func(c client, q string) { c.pushIDs(q, "", "m") },
	},
	"push": {
		waits:   func(q string) call { return popCall(q, "wait=true&timeout=60000&autoAck=true") },
		happens: func(c client, q string) { c.pushIDs(q, "", "m") },
	},
	"a change in SQL, and POST /internal/api/notify": {
		prepare: func(c client, q string) { c.pushIDs(q, "", "m"); c.putToSleep(q, queue.DefaultGroup) },
		happens: func(c client, q string) {
			var changed int
			c.scan(c.t, `WITH awake AS (
			    UPDATE belfry.cursor c SET ready_at = now() FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
			     WHERE c.group_id = g.id AND q.name = $1 RETURNING 1)
			SELECT count(*) FROM awake`, []any{q}, &changed)
			c.send1(post("/internal/api/notify", encode(object{"queue": q, "partition": "Default"})))
		},
	},
	"push to one partition": {
		prepare: func(c client, q string) { c.pushIDs(q, "p", "old"); drain(c, q) },
		waits:   func(q string) call { return popPartitionCall(q, "p", "wait=true&timeout=60000") },
		happens: func(c client, q string) { c.pushIDs(q, "other", "no"); c.pushIDs(q, "p", "m") },
	},
	"ack that leaves messages": {
		prepare: func(c client, q string) { c.pushIDs(q, "", "first", "m"); take(c, q) },
		happens: func(c client, q string) { finish(c, q, "completed") },
	},
	"transaction that pushes": {
		prepare: func(c client, q string) { c.pushIDs(q, "p", "old"); drain(c, q) },
		happens: func(c client, q string) {
			c.send1(transactCall(nil, pushing(item{Queue: q, Partition: "p", TransactionID: "m"})))
		},
	},
	"transaction that ends a lease": {
		prepare: func(c client, q string) { c.pushIDs(q, "", "first", "m"); take(c, q) },
		happens: func(c client, q string) {
			first := c.pop(q, "consumerGroup=other").ok(http.StatusOK) // this delivery has the id of the partition
			require.True(c.t, c.transact(nil, first.acking("completed")...).ok(http.StatusOK).Success)
		},
	},
	"nack": {
		prepare: func(c client, q string) { c.pushIDs(q, "", "m"); take(c, q) },
		happens: func(c client, q string) { finish(c, q, "failed") },
	},
	"ack in SQL that leaves messages": {
		prepare: func(c client, q string) {
			c.pushIDs(q, "", "first", "m")
			c.exec(`SELECT belfry.pop($1)`, q)
		},
		happens: func(c client, q string) {
			c.exec(`SELECT belfry.ack(c.lease_id) FROM belfry.cursor c WHERE c.lease_id IS NOT NULL AND c.partition_id = ANY (ARRAY (
				SELECT p.id FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = $1))`, q)
		},
	},
	"dead letter that leaves messages": {
		prepare: func(c client, q string) { c.pushIDs(q, "", "first", "m"); take(c, q) },
		happens: func(c client, q string) { finish(c, q, "dlq") },
	},
	"lease expires": {
		prepare: func(c client, q string) { options(c, q, "leaseTime", 1); c.pushIDs(q, "", "m") },
		in:      time.Second,
	},
	"delay ends": {
		prepare: func(c client, q string) { options(c, q, "delayedProcessing", 1) },
		happens: func(c client, q string) { c.pushIDs(q, "", "m") },
		in:      time.Second,
	},
	"window closes": {
		prepare: func(c client, q string) { options(c, q, "windowBuffer", 1) },
		waits:   func(q string) call { return popCall(q, "wait=true&timeout=60000&batch=9") },
		happens: func(c client, q string) { c.pushIDs(q, "", "m", "n") },
		in:      time.Second,
		want:    "m n",
	},
	"delay is removed": {
		prepare: func(c client, q string) { options(c, q, "delayedProcessing", 3600); c.pushIDs(q, "", "m") },
		happens: func(c client, q string) { options(c, q, "delayedProcessing", 0) },
	},
	"resume of a queue":            resumed("a queue", anyOf, false),
	"resume of a queue in SQL":     resumed("a queue", anyOf, true),
	"resume of a partition":        resumed("a partition", anyOf, false),
	"resume of a partition in SQL": resumed("a partition", anyOf, true),
	"resume of a group":            resumed("a group", anyOf, false),
	"resume of a group in SQL":     resumed("a group", anyOf, true),
	"resume of the partition that a pop names": resumed("a partition", func(q string) call {
		return popPartitionCall(q, "p", "wait=true&timeout=60000")
	}, false),
	"queue is created": {
		prepare: func(client, string) {},
		happens: func(c client, q string) { c.configure(q, nil).ok(http.StatusOK); c.pushIDs(q, "", "m") },
	},
	"queue is created by a push": {
		prepare: func(client, string) {},
		happens: func(c client, q string) { c.pushIDs(q, "", "m") },
	},
	"partition is created": {
		waits:   func(q string) call { return popPartitionCall(q, "new", "wait=true&timeout=60000") },
		happens: func(c client, q string) { c.pushIDs(q, "new", "m") },
	},
	"partition is created with its queue": {
		prepare: func(client, string) {},
		waits:   func(q string) call { return popPartitionCall(q, "new", "wait=true&timeout=60000") },
		happens: func(c client, q string) { c.pushIDs(q, "new", "m") },
	},
	"queue is deleted and created again": {
		happens: func(c client, q string) { c.deleteQueue(q).ok(http.StatusOK); c.pushIDs(q, "", "m") },
	},
	"queue with matching tags is created": {
		prepare: func(client, string) {},
		waits:   func(q string) call { return popTaggedCall("wait=true&timeout=60000&namespace=ns-" + q) },
		happens: func(c client, q string) { c.pushIDs("ns-"+q+".task", "", "m") },
	},
	"push to a queue with matching tags": {
		prepare: func(c client, q string) { tagged(c, q, nil) },
		waits:   func(q string) call { return popTaggedCall("wait=true&timeout=60000&namespace=ns-" + q) },
		happens: func(c client, q string) { c.pushIDs("ns-"+q+".task", "", "m") },
	},
	"queue gets matching tags": {
		prepare: func(c client, q string) { c.pushIDs(q, "", "m") },
		waits:   func(q string) call { return popTaggedCall("wait=true&timeout=60000&task=task-" + q) },
		happens: func(c client, q string) {
			c.send1(post("/api/v1/configure", encode(map[string]any{"queue": q, "task": "task-" + q})))
		},
	},
	"delay ends in a queue with matching tags": {
		prepare: func(c client, q string) { tagged(c, q, map[string]any{"delayedProcessing": 1}) },
		waits:   func(q string) call { return popTaggedCall("wait=true&timeout=60000&namespace=ns-" + q) },
		happens: func(c client, q string) { c.pushIDs("ns-"+q+".task", "", "m") },
		in:      time.Second,
	},
}

func known(c client, queue string) { c.configure(queue, nil).ok(http.StatusOK) }

func anyOf(queue string) call { return popCall(queue, "wait=true&timeout=60000") }

func options(c client, queue, key string, value int) {
	c.configure(queue, map[string]any{key: value}).ok(http.StatusOK)
}

// tagged configures a queue in a namespace. The namespace must be set, because a configuration replaces the tags that
// follow from the queue's name.
func tagged(c client, queue string, options map[string]any) {
	c.send1(post("/api/v1/configure", encode(map[string]any{
		"queue": "ns-" + queue + ".task", "namespace": "ns-" + queue, "options": options,
	})))
}

// take leases the first message of a queue. finish acknowledges it.
func take(c client, queue string) { c.pop(queue, "").ok(http.StatusOK) }

func finish(c client, queue, status string) {
	var partition, lease, transaction string
	c.scan(c.t, `SELECT p.uid::text, c.lease_id::text, m.transaction_id
		FROM belfry.queue q JOIN belfry.partition p ON p.queue_id = q.id JOIN belfry.cursor c ON c.partition_id = p.id
		JOIN belfry.message m ON m.partition_id = p.id AND m.seq = c.committed + 1
		WHERE q.name = $1 AND c.lease_id IS NOT NULL`, []any{queue}, &partition, &lease, &transaction)
	got := c.ack(ackItem{TransactionID: transaction, PartitionID: partition, LeaseID: lease, Status: status}).ok(http.StatusOK)
	require.True(c.t, got[0].Success, "%s", got[0].reason())
}

func drain(c client, queue string) { c.pop(queue, "batch=100&autoAck=true").ok(http.StatusOK) }

// send1 sends a call that must succeed.
func (c client) send1(what call) {
	c.t.Helper()
	got, err := c.send(c.t.Context(), what)
	require.NoError(c.t, err)
	require.Less(c.t, got.Status, http.StatusMultipleChoices, "%.500s", got.Raw)
}

func TestWake(t *testing.T) {
	t.Parallel()
	for where, elsewhere := range map[string]bool{"here": false, "elsewhere": true} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			waitsAt := start(t, proven)
			waitsAt.untilProven(t, 0)
			happensAt := waitsAt
			if elsewhere {
				happensAt = startOn(t, waitsAt.dsn, proven)
				waitsAt.untilProven(t, 1)
				happensAt.untilProven(t, 1)
			}
			for name, row := range transitions {
				// The rows run one after the other, because a queue that one row creates would wake the requests of others.
				t.Run(name, func(t *testing.T) {
					row.check(t, waitsAt.client(t), happensAt.client(t))
				})
			}
		})
	}
}

// proven sets a fallback interval of an hour, so that only wakes deliver messages.
func proven(cfg *config.Config) { cfg.Dispatch.FallbackInterval = time.Hour }

// listenOn makes the server listen and notify through another DSN.
func listenOn(dsn string) func(cfg *config.Config) {
	return func(cfg *config.Config) { cfg.Database.ListenURL = setting.Secret(dsn) }
}

// untilProven waits until the listener is proven and knows at least this number of other instances.
func (s *server) untilProven(t *testing.T, peers int) {
	t.Helper()
	until(t, "the listener is proven", func() bool {
		l := s.status(t).Listener
		return l.State == "proven" && l.Peers >= peers
	})
}

type dispatcherStatus struct {
	Listener struct {
		State string `json:"state"`
		Peers int    `json:"peers"`
	} `json:"listener"`
	Groups []struct {
		Queue     string `json:"queue"`
		Namespace string `json:"namespace"`
		Task      string `json:"task"`
		Waiting   int    `json:"waiting"`
	} `json:"groups"`
}

func (s *server) status(t *testing.T) dispatcherStatus {
	t.Helper()
	return ask[dispatcherStatus](s.client(t), get("/api/v1/status/dispatcher")).ok(http.StatusOK)
}

// parked returns the number of requests that wait for a queue, or for the namespace or task that is named after it.
func (s *server) parked(t *testing.T, queue string) (waiting int) {
	t.Helper()
	for _, g := range s.status(t).Groups {
		if g.Queue == queue || g.Namespace == "ns-"+queue || g.Task == "task-"+queue {
			waiting += g.Waiting
		}
	}
	return waiting
}

// parksBeforeItsAnswer waits until a pop waits for the queue or is answered. It reports whether the pop waited before its
// answer.
func (c client) parksBeforeItsAnswer(pop *pendingCall, queue string) (waited bool) {
	c.t.Helper()
	until(c.t, "the pop waits", func() bool {
		waited = c.parked(c.t, queue) == 1
		select {
		case <-pop.done:
			return true
		default:
			return waited
		}
	})
	return waited
}

// untilParked waits until n requests wait for a queue, or for the tags named after it, and no statement is running.
func (s *server) untilParked(t *testing.T, queue string, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d requests wait for %s", n, queue), func() bool { return s.parked(t, queue) == n })
	var busy int
	until(t, "no statement is running", func() bool {
		s.scan(t, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()`, nil, &busy)
		return busy == 0
	})
}

func (row transition) check(t *testing.T, waitsAt, happensAt client) {
	if row.prepare == nil {
		row.prepare = known
	}
	if row.waits == nil {
		row.waits = anyOf
	}
	queue := fmt.Sprintf("q%x", time.Now().UnixNano())
	row.prepare(happensAt, queue)
	watch := stopwatch.Start(t)
	if row.happens == nil { // the event is the end of this lease
		take(happensAt, queue)
	}
	waiting := waitsAt.begin(row.waits(queue))
	if row.happens != nil {
		waitsAt.untilParked(t, queue, 1)
		watch = stopwatch.Start(t)
		row.happens(happensAt, queue)
	} else if !waitsAt.parksBeforeItsAnswer(waiting, queue) {
		t.Log("the test machine paused until the lease ended: trying again")
		row.check(t, waitsAt, happensAt)
		return
	}
	got := waiting.delivery().ok(http.StatusOK)
	require.GreaterOrEqual(t, watch.Elapsed(), row.in-clockSlack, "the message must not be delivered before it is ready")
	watch.Within(t, row.in+wakeBound, "time until the wake delivers the message")
	require.Equal(t, cmp.Or(row.want, "m"), strings.Join(got.ids(), " "))
}

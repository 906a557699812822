package live_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The first event after a quiet time reaches the watchers of all instances within 100 ms. A busy instance sends at most
// one notification a second. The rates cover a whole second.
func TestTheFirstEventAfterAQuietTimeArrivesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		w := a.watch(t)
		after(t, w, 5*time.Second)
		for what, happens := range map[string]func(){
			"a push": func() { b.push("q", 4) }, "a group": func() { b.OnGroupCreated("q", "", "g") }, "a change of an operator": b.Audited,
		} {
			_, audits := a.db.reads()
			happens()
			got := after(t, w, 100*time.Millisecond)
			_, auditsNow := a.db.reads()
			require.True(t, len(got) == 1 || auditsNow == audits+1, what)
			if len(got) == 1 && got[0].Type == live.TypeRates {
				require.Equal(t, []api.QueueRates{{Queue: "q", Pushed: 4}}, dataOf[api.Rates](t, got[0]).Queues)
			}
			after(t, w, 5*time.Second)
		}
		before := n.count("b")
		for range 500 {
			b.push("q", 1)
			<-time.After(20 * time.Millisecond)
		}
		require.InDelta(t, before+10, n.count("b"), 1)
	})
}

// Events of another instance reach a watcher, in at most one notification a second.
func TestEventsOfOtherInstancesArrive(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		b.push("q", 1)
		<-time.After(time.Minute)
		require.Equal(t, 1, n.count("b"), "without a watcher, b has sent only Hello")

		w := a.watch(t)
		after(t, w, time.Second)
		second, err := a.Watch(live.Filter{}, "")
		require.NoError(t, err)
		snapshot, _ := second.Take()
		instances := dataOf[api.Snapshot](t, snapshot[0]).Instances
		require.Equal(t, []string{"a", "b"}, []string{instances[0].Host, instances[1].Host})
		second.Close()
		before := n.count("b")
		b.OnCreated("new", "", events.Here)
		b.OnGroupCreated("new", "", "g")
		b.ListenerChanged("deaf")
		b.SequencerChanged(true)
		b.counts.Removed("old", 1, 2, 3)
		b.push("q", 10)
		b.Audited()
		got := after(t, w, 2*time.Second)
		require.ElementsMatch(t, []live.Type{
			live.TypeQueueCreated, live.TypeGroupCreated, live.TypeListener, live.TypeSequencer, live.TypeSweep, live.TypeRates, live.TypeRates,
		}, types(got))
		for _, e := range got {
			require.Equal(t, b.Instance, e.Instance)
			switch data := e.Data.(type) {
			case api.Rates:
				require.Equal(t, api.Instance{ID: b.Instance.String(), Host: "b", Listener: "proven", Sequencer: true, UptimeSeconds: data.Instance.UptimeSeconds}, *data.Instance)
				if len(data.Queues) > 0 {
					require.Equal(t, []api.QueueRates{{Queue: "q", Pushed: 10}}, data.Queues)
				}
			case api.SweepCounts:
				require.Equal(t, api.SweepCounts{Retention: 1, Completed: 2, Evicted: 3}, data)
				require.Equal(t, "old", e.Queue)
			}
		}
		require.Equal(t, before+2, n.count("b"), "one with the figures, and one for the first idle second")
		_, audits := a.db.reads()
		require.Equal(t, 1, audits)
		groups, _ := b.db.reads()
		require.Zero(t, groups, "b has no watcher")
	})
}

// In an idle system, a watcher causes no notification, however long it watches. It sees the next event.
func TestAnIdleWatcherCostsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		w := a.watch(t)
		after(t, w, time.Minute)
		sent := n.count("a") + n.count("b")
		require.Empty(t, after(t, w, 24*time.Hour))
		require.Equal(t, sent, n.count("a")+n.count("b"))
		b.push("q", 1)
		require.Contains(t, types(after(t, w, 2*time.Second)), live.TypeRates)
	})
}

// While figures arrive, the watching instance renews its interest. After it has died, the other instance stops sending
// figures.
func TestAnInstanceThatDiedGetsNoFigures(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		w := a.watch(t)
		busy := func(seconds int) (sent int) {
			before := n.count("b")
			for range seconds {
				b.push("q", 1)
				<-time.After(time.Second)
			}
			synctest.Wait()
			return n.count("b") - before
		}
		announced := n.count("a")
		require.InDelta(t, 60, busy(60), 1)
		require.InDelta(t, 12, n.count("a")-announced, 2)
		require.NotEmpty(t, after(t, w, 0))

		n.mu.Lock()
		n.cut["a"] = true
		n.mu.Unlock()
		require.InDelta(t, 15, busy(60), 6)
		require.Zero(t, busy(10))
	})
}

// When the last watcher has left, the other instances stop sending figures after lingerTime. In this time the watcher may
// subscribe again.
func TestTheLastWatcherEndsTheFigures(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		a.watch(t).Close()
		<-time.After(time.Minute)
		before := n.count("b")
		b.push("q", 1)
		<-time.After(5 * time.Second)
		require.Equal(t, before, n.count("b"))
	})
}

// A new instance, or an instance whose LISTEN was interrupted, learns which instances have watchers. Watchers see an
// instance that leaves.
func TestANewInstanceLearnsWhoWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a := start(t, n, "a")
		w := a.watch(t)
		b := start(t, n, "b")
		after(t, w, 2*time.Second)
		b.push("q", 1)
		require.Contains(t, types(after(t, w, 2*time.Second)), live.TypeRates)

		b.PeerLeft(a.Instance) // b has heard no heartbeat of a
		b.push("q", 1)
		require.Empty(t, after(t, w, 5*time.Second))
		b.OnListening()
		after(t, w, 2*time.Second)
		b.push("q", 1)
		require.Contains(t, types(after(t, w, 2*time.Second)), live.TypeRates)

		a.PeerLeft(b.Instance)
		got := after(t, w, 0)
		require.Equal(t, api.InstanceChange{State: "left", Host: "b"}, got[len(got)-1].Data)
	})
}

// A notification is never too long for Postgres. It has the busiest queues and the number of omitted queues.
func TestANotificationIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a, b := start(t, n, "a"), start(t, n, "b")
		w := a.watch(t)
		after(t, w, time.Second)
		const queues = 2000
		for q := range queues {
			b.push(fmt.Sprintf("queue %04d %s", q, strings.Repeat("ü", 50)), 1+q%100)
			b.OnCreated(fmt.Sprint(q, strings.Repeat("n", 200)), "", events.Here)
		}
		got := after(t, w, 1500*time.Millisecond)
		for _, payload := range n.wire {
			require.Less(t, len(payload), 8000)
		}
		lost, created := 0, 0
		for _, e := range got {
			switch data := e.Data.(type) {
			case api.Rates:
				if len(data.Queues) > 0 || data.Omitted > 0 {
					require.Equal(t, queues, len(data.Queues)+data.Omitted)
				}
			case api.Dropped:
				lost += data.Count
			}
			if e.Type == live.TypeQueueCreated {
				created++
			}
		}
		require.Positive(t, lost)
		require.Equal(t, queues, lost+created)
	})
}

// Forged notifications cause no event, at most 64 known instances and a bounded number of answers.
func TestForgedNotificationsDoNoHarm(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		a := start(t, n, "a")
		w := a.watch(t)
		id := queue.NewID().String()
		for _, payload := range []string{
			"", "null", "{}", "[]", `{"v":2,"i":"` + id + `"}`, `{"v":1,"i":"x"}`, `{"v":1,"i":"` + id + `","r":{"q":[[]]}}`,
			`{"v":1,"i":"` + id + `","e":[{"t":"closing"},{"t":"audit"},{"t":"queue.created"},{"t":"listener"}]}`,
			`{"v":1,"i":"` + a.Instance.String() + `","hello":true}`, strings.Repeat("x", 9000),
		} {
			a.Heard(payload)
		}
		for range 1000 {
			a.Heard(`{"v":1,"i":"` + queue.NewID().String() + `","watch":true,"info":{"h":"x"}}`)
		}
		seen := types(after(t, w, time.Second))
		for _, unwanted := range []live.Type{live.TypeClosing, live.TypeAudit, live.TypeQueueCreated, live.TypeListener} {
			require.NotContains(t, seen, unwanted)
		}
		require.LessOrEqual(t, len(seen), 70, "the hub remembers at most 64 instances")
		require.LessOrEqual(t, n.count("a"), 70)
	})
}

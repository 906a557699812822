package live_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A busy second causes one event with its rates. The first idle second causes one event without queues. Further idle
// seconds cause no event.
func TestRatesOfBusyQueuesComeOnceASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		i := start(t, n, "a")
		i.push("q", 5) // before the watcher, so it is in no rate
		w := i.watch(t)
		i.setWaiting(map[string]int{"q": 2})
		i.push("q", 10)
		i.counts.Delivered(&queue.Delivery{LeaseID: queue.NewID(), Messages: []queue.Message{{Partition: &queue.Partition{Queue: "q"}}}})
		done := queue.AckResult{Queue: "q", Resolved: true, Success: true}
		dead := done
		dead.DeadLettered = true
		i.counts.Acknowledged([]queue.AckItem{{}, {Status: queue.AckFailed}, {Status: queue.AckFailed}, {Status: queue.AckDead}, {Status: queue.AckRetry}, {}, {}},
			[]queue.AckResult{done, done, dead, dead, done, {Queue: "q", Resolved: true}, {Queue: "q"}})
		got := after(t, w, time.Second)
		require.Equal(t, []live.Type{live.TypeRates}, types(got))
		rates := dataOf[api.Rates](t, got[0])
		require.Equal(t, []api.QueueRates{{Queue: "q", Pushed: 10, Delivered: 1, Acked: 1, Failed: 3, Retried: 1, DeadLettered: 2, Waiting: 2}}, rates.Queues)
		require.Equal(t, api.Instance{ID: i.Instance.String(), Host: "a", Listener: "proven", Waiting: 2, UptimeSeconds: 1}, *rates.Instance)
		got = after(t, w, time.Second)
		require.Equal(t, []live.Type{live.TypeRates}, types(got))
		require.Empty(t, dataOf[api.Rates](t, got[0]).Queues)
		require.Empty(t, after(t, w, time.Hour))

		i.setWaiting(nil) // all consumers left
		got = after(t, w, 5*time.Second)
		require.Equal(t, []live.Type{live.TypeRates}, types(got))
		require.Equal(t, []api.QueueRates{{Queue: "q"}}, dataOf[api.Rates](t, got[0]).Queues)
	})
}

// A slow watcher loses its oldest events and gets the number of lost events. It does not delay other watchers.
func TestASlowWatcherLosesTheOldestEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		i := start(t, n, "a")
		slow, quick := i.watch(t), i.watch(t)
		for n := range 1024 + 44 {
			i.OnCreated(fmt.Sprint("q", n), "", events.Here)
			got, _ := quick.Take()
			require.Len(t, got, 1)
		}
		got, open := slow.Take()
		require.True(t, open)
		require.Len(t, got, 1025)
		require.Equal(t, api.Dropped{Count: 44}, got[0].Data)
		require.Equal(t, "q44", got[1].Queue)
		require.Equal(t, "q1067", got[1024].Queue)
	})
}

// A watcher that subscribes again gets the events that it missed. If the hub no longer has them, the watcher gets a
// TypeDropped and a snapshot.
func TestAWatcherSubscribesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		i := start(t, n, "a")
		w := i.watch(t)
		i.OnCreated("one", "", events.Here)
		got, _ := w.Take()
		last := got[0].ID
		w.Close()
		i.OnCreated("two", "", events.Here) // while there is no watcher
		again, err := i.Watch(live.Filter{}, last)
		require.NoError(t, err)
		got, _ = again.Take()
		require.Len(t, got, 1)
		require.Equal(t, "two", got[0].Queue)
		latest := got[0].ID
		again.Close()

		<-time.After(time.Minute)
		i.OnCreated("three", "", events.Here)
		for _, id := range []string{last, latest, "0123-4", "garbage"} {
			late, err := i.Watch(live.Filter{}, id)
			require.NoError(t, err)
			synctest.Wait()
			got, _ = late.Take()
			require.Equal(t, []live.Type{live.TypeDropped, live.TypeSnapshot}, types(got), id)
			late.Close()
		}
	})
}

// The number of watchers is bounded. When the hub stops, each watcher gets a last event.
func TestWatchersAreBoundedAndEndWithTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		i := start(t, n, "a", func(cfg *live.Config) { cfg.MaxWatchers = 1 })
		w := i.watch(t)
		_, err := i.Watch(live.Filter{}, "")
		require.Equal(t, queue.CodeOverloaded, queue.CodeOf(err))
		i.Stop()
		var seen []live.Event
		for e := range w.Events(t.Context()) {
			seen = append(seen, e)
		}
		require.Equal(t, []live.Type{live.TypeClosing}, types(seen))
		_, err = i.Watch(live.Filter{}, "")
		require.Equal(t, queue.CodeOverloaded, queue.CodeOf(err))
	})
}

// A watcher with grants sees only events of queues that it may read, and the audit of queues that it may administer. It
// sees no events of instances.
func TestAWatcherSeesWhatItsGrantsAllow(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		i := start(t, n, "a")
		i.db.set(func(d *database) {
			d.groups.List = []live.GroupState{{Queue: "a.1", Group: "g", LateAfter: time.Minute, Behind: true}, {Queue: "b.1", Group: "g", Behind: true, DeadLetters: true}}
		})
		i.setWaiting(map[string]int{"a.1": 1, "b.1": 1})
		grants := &identity.Grants{Read: []string{"a.*"}, Admin: []string{"c"}}
		w, err := i.Watch(live.Filter{Grants: grants, Audit: true}, "")
		require.NoError(t, err)
		plain := i.watch(t, func(f *live.Filter) { f.Audit = false })
		got, _ := w.Take()
		require.Equal(t, api.Snapshot{
			Queues: []api.QueueWaiting{{Queue: "a.1", Waiting: 1}}, Lag: []api.LateGroup{{Queue: "a.1", Group: "g", Beyond: true, ThresholdSeconds: 60}},
			DeadLetters: []api.DeadLetterGroup{},
		}, got[len(got)-1].Data)

		i.push("a.1", 1)
		i.push("b.1", 1)
		i.counts.Removed("a.2", 1, 0, 0)
		i.counts.Removed("b.2", 1, 0, 0)
		i.OnCreated("a.3", "", events.Here)
		i.OnGroupCreated("b.3", "", "g")
		i.ListenerChanged("deaf")
		i.SequencerChanged(true)
		i.MaintenanceChanged(true, false)
		i.db.set(func(d *database) {
			for _, name := range []string{"", "a.1", "b.1", "c"} {
				d.rows = append(d.rows, audit.Row{
					Key: audit.Key{At: time.Now(), ID: queue.NewID()}, Action: audit.ConfigureQueue, Target: audit.Target{Queue: name}, Result: audit.OK,
				})
			}
		})
		i.Audited()
		names := map[live.Type]map[string]bool{}
		for _, e := range after(t, w, 3*time.Second) {
			if names[e.Type] == nil {
				names[e.Type] = map[string]bool{}
			}
			names[e.Type][e.Queue] = true
			if r, ok := e.Data.(api.Rates); ok {
				require.Nil(t, r.Instance)
				for _, q := range r.Queues {
					names[e.Type][q.Queue] = true
				}
			}
		}
		require.Equal(t, map[live.Type]map[string]bool{
			live.TypeRates: {"": true, "a.1": true}, live.TypeSweep: {"a.2": true}, live.TypeQueueCreated: {"a.3": true},
			live.TypeQueueChanged: {"a.1": true, "c": true}, live.TypeAudit: {"c": true},
		}, names)
		seen := types(after(t, plain, 0))
		require.NotContains(t, seen, live.TypeAudit)
		for _, want := range []live.Type{live.TypeListener, live.TypeSequencer, live.TypeMaintenance, live.TypeGroupCreated} {
			require.Contains(t, seen, want)
		}
	})
}

// The hub reads the audit after a change. Each row causes one event, even if two reads return the row.
func TestChangesAreReadFromTheAudit(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		i := start(t, n, "a")
		w := i.watch(t)
		row := func(action, result string, target audit.Target) audit.Row {
			return audit.Row{Key: audit.Key{At: time.Now(), ID: queue.NewID()}, Action: action, Target: target, Result: result}
		}
		i.db.set(func(d *database) {
			d.rows = []audit.Row{
				row(audit.PauseDelivery, audit.OK, audit.Target{Queue: "q", Group: "g"}), row(audit.DeleteQueue, "unavailable", audit.Target{Queue: "q"}),
				row(audit.PauseDelivery, audit.OK, audit.Target{Queue: "q", Partition: "p"}),
			}
		})
		i.Audited()
		got := after(t, w, time.Second)
		require.Equal(t, []live.Type{live.TypeQueuePaused, live.TypeAudit, live.TypeAudit, live.TypeGroupPaused, live.TypeAudit}, types(got))
		require.Equal(t, "p", got[0].Partition)
		require.Equal(t, "g", got[3].Group)

		i.OnResync("a SQL session", events.Peer)
		i.OnResync("a SQL session", events.Peer)
		require.Empty(t, after(t, w, 10*time.Second))
		_, reads := i.db.reads()
		require.Equal(t, 2, reads)

		i.db.set(func(d *database) { d.rows[0].Counts = []byte(`{"cursors":2}`) })
		i.Audited()
		require.Equal(t, []live.Type{live.TypeAudit}, types(after(t, w, 10*time.Second)), "a row whose counts have changed is an event again")
	})
}

// The hub reads the groups after a change, and when the last read predicts that a group crosses a threshold. Otherwise it
// does not read.
func TestThresholdsAreReadOnlyAfterAChange(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		i := start(t, n, "a")
		reads := func() int {
			groups, _ := i.db.reads()
			return groups
		}
		i.push("q", 1)
		<-time.After(time.Hour)
		require.Zero(t, reads(), "there is no watcher")
		i.db.set(func(d *database) { d.err = errDown })
		w := i.watch(t)
		require.Equal(t, 1, reads())
		i.db.set(func(d *database) { d.err, d.groups = nil, live.Groups{NextIn: 50 * time.Second, HasNext: true} })
		require.Empty(t, after(t, w, 10*time.Second))
		require.Equal(t, 2, reads(), "the hub repeats a failed read")

		behind := live.GroupState{Queue: "q", Group: "g", Age: time.Minute, LateAfter: time.Minute, Behind: true, DeadLetters: true}
		i.db.set(func(d *database) { d.groups = live.Groups{List: []live.GroupState{behind}} })
		require.Empty(t, after(t, w, 44*time.Second))
		got := after(t, w, 2*time.Second)
		require.Equal(t, []live.Type{live.TypeLag, live.TypeDeadLetters}, types(got))
		require.Equal(t, api.LateGroup{Queue: "q", Group: "g", Beyond: true, Seconds: 60, ThresholdSeconds: 60}, got[0].Data)
		require.Equal(t, 3, reads())
		require.Empty(t, after(t, w, time.Hour))
		require.Equal(t, 3, reads())

		i.db.set(func(d *database) { d.groups = live.Groups{} })
		i.counts.Acknowledged(make([]queue.AckItem, 1), []queue.AckResult{{Queue: "q", Resolved: true, Success: true}})
		got = after(t, w, 10*time.Second)
		require.Equal(t, []live.Type{live.TypeRates, live.TypeLag, live.TypeDeadLetters, live.TypeRates}, types(got))
		require.Equal(t, api.LateGroup{Queue: "q", Group: "g", ThresholdSeconds: 60}, got[1].Data)
		require.Equal(t, 4, reads())

		for range 100 { // a busy system
			i.push("q", 1)
			<-time.After(time.Second)
		}
		require.InDelta(t, 24, reads(), 1)
	})
}

// Ten watchers cause as many reads and notifications as one watcher.
func TestTenWatchersCostAsMuchAsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		i := start(t, n, "a")
		for range 10 {
			i.watch(t)
		}
		for range 10 {
			i.push("q", 1)
			i.Audited()
			<-time.After(5 * time.Second)
		}
		groups, audits := i.db.reads()
		require.InDelta(t, 11, groups, 1)
		require.Equal(t, 10, audits)
		require.Equal(t, 2, n.count("a"), "one Hello and one Watch")
	})
}

package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database is a Reader that counts its reads.
type database struct {
	mu            sync.Mutex
	groups        live.Groups
	rows          []audit.Row
	err           error
	groupReads    int
	auditReads    int
	lastAuditFrom time.Time
}

func (d *database) Groups(context.Context, time.Duration, int) (live.Groups, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.groupReads++
	found := d.groups
	found.Now = time.Now()
	return found, d.err
}

func (d *database) Audit(_ context.Context, since time.Time, _ int64) ([]audit.Row, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.auditReads++
	d.lastAuditFrom = since
	return d.rows, d.err
}

func (d *database) set(change func(d *database)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *database) reads() (groups, audit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.groupReads, d.auditReads
}

// network delivers each notification to all hubs at once, as Postgres does.
type network struct {
	mu   sync.Mutex
	hubs []*live.Hub
	sent map[string]int // number of sent notifications, by host
	cut  map[string]bool
	wire []string
	// alive are further instances that only send heartbeats.
	alive []queue.ID
}

func (n *network) send(host string) func(payload string) {
	return func(payload string) {
		n.mu.Lock()
		n.sent[host]++
		n.wire = append(n.wire, payload)
		cut, hubs := n.cut[host], n.hubs
		n.mu.Unlock()
		if !cut {
			for _, hub := range hubs {
				go hub.Heard(payload)
			}
		}
	}
}

func (n *network) count(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[host]
}

// inBubble runs a test with a network in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		test(t, &network{sent: map[string]int{}, cut: map[string]bool{}})
	})
}

// instance is a running hub and its dependencies.
type instance struct {
	*live.Hub
	counts *history.Recorder
	db     *database

	mu      sync.Mutex
	waiting map[string]int
	// unwritten stands for the instance's unwritten counts.
	unwritten string
}

func (i *instance) setWaiting(waiting map[string]int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waiting = waiting
}

// start runs a hub on a network until the test ends. The caller must be in a bubble of synctest.
func start(t *testing.T, n *network, host string, edits ...func(*live.Config)) *instance {
	t.Helper()
	cfg := live.DefaultConfig()
	for _, edit := range edits {
		edit(&cfg)
	}
	i := &instance{counts: history.NewRecorder(1), db: &database{}}
	i.Hub = live.New(live.Deps{
		Instance: queue.NewID(), Host: host, Reader: i.db, Counts: i.counts, Send: n.send(host), Listener: func() string { return "proven" },
		Waiting: func() (all int) {
			i.mu.Lock()
			defer i.mu.Unlock()
			for _, waiting := range i.waiting {
				all += waiting
			}
			return all
		},
		WaitingByQueue: func() map[string]int {
			i.mu.Lock()
			defer i.mu.Unlock()
			return i.waiting
		},
		Peers: func() []queue.ID {
			n.mu.Lock()
			defer n.mu.Unlock()
			ids := slices.Clone(n.alive)
			for _, hub := range n.hubs {
				if hub != i.Hub {
					ids = append(ids, hub.Instance)
				}
			}
			return ids
		},
		OwnUnwritten: func(int) []byte {
			i.mu.Lock()
			defer i.mu.Unlock()
			return []byte(i.unwritten)
		}, Log: zap.NewNop(),
	}, cfg)
	n.mu.Lock()
	n.hubs = append(n.hubs, i.Hub)
	n.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	i.OnListening()
	synctest.Wait()
	return i
}

// watch subscribes a watcher and takes its snapshot. Without edits, the watcher may see everything.
func (i *instance) watch(t *testing.T, edits ...func(f *live.Filter)) *live.Watcher {
	t.Helper()
	f := live.Filter{Audit: true}
	for _, edit := range edits {
		edit(&f)
	}
	w, err := i.Watch(f, "")
	require.NoError(t, err)
	t.Cleanup(w.Close)
	synctest.Wait()
	events, open := w.Take()
	require.True(t, open)
	require.NotEmpty(t, events)
	require.Equal(t, live.TypeSnapshot, events[0].Type)
	return w
}

// after waits for d and returns the events that a watcher got.
func after(t *testing.T, w *live.Watcher, d time.Duration) []live.Event {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
	events, _ := w.Take()
	return events
}

// dataOf returns the data of an event, which must be a T.
func dataOf[T any](t *testing.T, e live.Event) T {
	t.Helper()
	data, ok := e.Data.(T)
	require.True(t, ok, "%T", e.Data)
	return data
}

// types returns the types of events.
func types(events []live.Event) (list []live.Type) {
	for _, e := range events {
		list = append(list, e.Type)
	}
	return list
}

// push counts n stored messages of a queue.
func (i *instance) push(name string, n int) {
	items, results := make([]queue.PushItem, n), make([]queue.PushResult, n)
	for at := range items {
		items[at].Queue = name
	}
	i.counts.Pushed(items, results)
}

var errDown = errors.New("the database is down")

// One statement finds the groups that are behind, the groups with dead letters, and the instant at which the next group
// gets behind. A group is also behind while a consumer has a lease of its late messages.
func TestTheDatabaseFindsGroupsBeyondAThreshold(t *testing.T) {
	t.Parallel()
	pool := enginetest.Pool(t, pgtest.Database(t))
	s := enginetest.Store(t, pool, func(c *store.Config) { c.Defaults = queue.DefaultDefaults() })
	exec := func(statement string, args ...any) {
		t.Helper()
		enginetest.Exec(t, pool, statement, args...)
	}
	push := func(name, id string, old time.Duration) {
		t.Helper()
		_, err := s.Push(t.Context(), []queue.PushItem{{Queue: name, Partition: "p", TransactionID: id, Payload: []byte("1")}})
		require.NoError(t, err)
		exec(`UPDATE belfry.message SET created_at = now() - make_interval(secs => $2) WHERE transaction_id = $1`, id, old.Seconds())
	}
	pop := func(name string) queue.Delivery {
		t.Helper()
		d, err := s.Pop(t.Context(), &queue.PopRequest{Queue: name, Group: "g", Batch: 10, Partitions: 1})
		require.NoError(t, err)
		return d
	}
	ack := func(d *queue.Delivery, status queue.AckStatus) {
		t.Helper()
		m := d.Messages[0]
		results, err := s.Ack(t.Context(), []queue.AckItem{{TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: "g", Status: status}})
		require.NoError(t, err)
		require.True(t, results[0].Success)
	}
	for _, name := range []string{"leased", "ready", "done", "dead", "young", "empty"} {
		push(name, name+" first", 0)
		d := pop(name)
		status := queue.AckCompleted
		if name == "dead" {
			status = queue.AckDead
		}
		ack(&d, status)
	}
	push("leased", "l", time.Hour)
	pop("leased")
	push("ready", "r", 2*time.Hour)
	push("done", "d", time.Hour)
	done := pop("done")
	ack(&done, queue.AckCompleted)
	push("young", "y", 10*time.Second)

	database := live.NewDatabase(pool, audit.NewLog(pool, zap.NewNop()))
	shown := func(lag time.Duration, dead int) (list []string) {
		t.Helper()
		found, err := database.Groups(t.Context(), lag, dead)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), found.Now, time.Minute)
		for _, g := range found.List {
			require.Equal(t, "g", g.Group)
			list = append(list, fmt.Sprint(g.Queue, " ", g.Age.Round(time.Hour), " ", g.Behind, " ", g.DeadLetters))
		}
		if found.HasNext {
			list = append(list, fmt.Sprint("next in about ", found.NextIn.Round(time.Minute)))
		}
		return list
	}
	require.Equal(t, []string{"ready 2h0m0s true false", "leased 1h0m0s true false", "dead 0s false true", "next in about 5m0s"}, shown(5*time.Minute+10*time.Second, 1))
	require.Equal(t, []string{"dead 0s false true"}, shown(0, 1))
	require.Empty(t, shown(0, 0))
}

package sqlwait_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/dispatch/sqlwait"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	fallbackInterval = 5 * time.Minute
	pollInterval     = 100 * time.Millisecond
	maxPollInterval  = 2 * time.Second
)

func config() sqlwait.Config {
	return sqlwait.Config{
		Fallback: backoff.Policy{Initial: fallbackInterval, Max: fallbackInterval, Multiplier: 1, Jitter: 0.2},
		Backoff:  backoff.Policy{Initial: pollInterval, Max: maxPollInterval, Threshold: 1, Multiplier: 2},
	}
}

// waiter waits for the group with the id 1.
var waiter = queue.SQLWaiter{Queue: "orders", Group: "g", Channel: "belfry_1"}

// announcer passes events to the tracker, as the dispatcher does.
type announcer struct {
	events.Nop
	tracker *readiness.Tracker
}

func (a announcer) OnReady(ready []queue.Ready, _ events.Origin) { a.tracker.Ready(ready, "test") }
func (a announcer) OnResync(string, events.Origin)               { a.tracker.Resync("test") }
func (a announcer) OnCreated(queueName, partition string, from events.Origin) {
	if from == events.Here {
		a.tracker.Created(queueName, partition, "test")
	} else {
		a.tracker.CreatedUnnamed("test")
	}
}

// harness is a running Watcher on a fake store.
type harness struct {
	t        *testing.T
	store    *fakeStore
	bus      *events.Bus
	unproven atomic.Bool
	reg      *prometheus.Registry
	logs     *observer.ObservedLogs
}

// run starts a Watcher inside a synctest bubble. The Watcher ends with the test.
func run(t *testing.T, store *fakeStore) *harness {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	b := &harness{t: t, store: store, bus: &events.Bus{}, reg: prometheus.NewRegistry(), logs: logs}
	tracker := readiness.New(fallbackInterval)
	b.bus.Subscribe(announcer{tracker: tracker})
	w := sqlwait.New(sqlwait.Deps{
		Store: store, Readiness: tracker, Events: b.bus, Proven: func() bool { return !b.unproven.Load() },
		Registerer: b.reg, Log: zap.New(core),
	}, config())
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		end()
		require.NoError(t, <-done)
		tracker.Close()
	})
	return b
}

// await announces the waiter, and returns when all goroutines are blocked.
func (b *harness) await() {
	b.t.Helper()
	b.bus.SQLWaiter(waiter)
	synctest.Wait()
}

// notified waits until all goroutines are blocked, and returns how many notifications were sent.
func (b *harness) notified() int {
	b.t.Helper()
	synctest.Wait()
	return len(b.store.notifications())
}

// ready commits a message in a partition of the group and announces it.
func (b *harness) ready(group, partition int64) {
	b.store.put(group, 0)
	b.bus.Ready([]queue.Ready{{Group: group, Partition: partition}}, events.Here)
}

// value returns a metric.
func (b *harness) value(name string) float64 {
	b.t.Helper()
	families, err := b.reg.Gather()
	require.NoError(b.t, err)
	for _, family := range families {
		if family.GetName() == name {
			m := family.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	require.Fail(b.t, "no such metric", name)
	return 0
}

// fakeStore keeps one message for each group. The hooks run without the lock, before the call has an effect. If a hook returns an
// error, the call returns it.
type fakeStore struct {
	// resolve replaces the answer of Find. A group is registered if its id is not 0.
	resolve     func(req *queue.PopRequest) (queue.Target, bool, error)
	onPreflight func() error
	// onFound may change the results of a preflight.
	onFound  func(results []queue.ProbeResult)
	onForget func()
	onTell   func(channel string) error
	// gone are the groups that were deleted.
	gone map[int64]bool

	mu         sync.Mutex
	readyAt    map[int64]time.Time
	preflights int
	settled    []int64
	sent       []notification
}

// notification is one call of Tell.
type notification struct {
	channel string
	at      time.Time
}

// put adds a message to partition 1 of the group. It becomes poppable after in.
func (f *fakeStore) put(group int64, in time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readyAt == nil {
		f.readyAt = map[int64]time.Time{}
	}
	f.readyAt[group] = time.Now().Add(in)
}

func (f *fakeStore) Find(_ context.Context, req *queue.PopRequest) (target queue.Target, registered, ok bool, err error) {
	target, ok = queue.Target{Group: 1}, true
	if f.resolve != nil {
		target, ok, err = f.resolve(req)
	}
	return target, target.Group != 0, ok, err
}

func (f *fakeStore) Forget(*queue.PopRequest, queue.Target) {
	if f.onForget != nil {
		f.onForget()
	}
}

func (f *fakeStore) Preflight(_ context.Context, probes []queue.Probe, _ time.Duration) ([]queue.ProbeResult, error) {
	f.mu.Lock()
	f.preflights++
	f.mu.Unlock()
	if f.onPreflight != nil {
		if err := f.onPreflight(); err != nil {
			return nil, err
		}
	}
	results := make([]queue.ProbeResult, len(probes))
	f.mu.Lock()
	for i, probe := range probes {
		results[i].Gone = f.gone[probe.Target.Group]
		if at, ok := f.readyAt[probe.Target.Group]; ok {
			results[i].Candidates = []queue.Candidate{{Partition: 1, In: time.Until(at), Depth: 1}}
		}
	}
	f.mu.Unlock()
	if f.onFound != nil {
		f.onFound(results)
	}
	return results, nil
}

func (f *fakeStore) Settle(_ context.Context, _ int64, partitions []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled = append(f.settled, partitions...)
}

func (f *fakeStore) Tell(_ context.Context, channel string) error {
	if f.onTell != nil {
		if err := f.onTell(channel); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, notification{channel, time.Now()})
	return nil
}

func (f *fakeStore) notifications() []notification {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]notification(nil), f.sent...)
}

func (f *fakeStore) probes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.preflights
}

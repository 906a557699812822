package dispatch_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are the settings that a test may change.
type settings struct {
	dispatch.Config
	smart    dispatch.SmartPoll
	unproven bool
}

func unproven(s *settings) { s.unproven = true }

func bound(n int) func(*settings) { return func(s *settings) { s.MaxIntentions = n } }

// harness is a running Dispatcher on a fake store.
type harness struct {
	*dispatch.Dispatcher
	t        *testing.T
	store    *fakeStore
	bus      *events.Bus
	intents  *dispatch.Intents
	unproven atomic.Bool // the listener is not proven
	paused   atomic.Pointer[chan struct{}]
	// revocation is closed, and replaced, when rights were revoked.
	revocation atomic.Pointer[chan struct{}]
	reg        *prometheus.Registry
	logs       *observer.ObservedLogs
	// end ends Run.
	end context.CancelFunc
}

// pause returns the end of pop maintenance, or nil.
func (b *harness) pause() <-chan struct{} {
	if ended := b.paused.Load(); ended != nil {
		return *ended
	}
	return nil
}

// revocable returns a function that ends the rights of the request.
func (b *harness) revocable(req *queue.PopRequest) (revoke func()) {
	var revoked atomic.Bool
	req.Check = func() error {
		if revoked.Load() || !req.RightsEnd.IsZero() && !time.Now().Before(req.RightsEnd) {
			return &queue.Error{Code: queue.CodeUnauthenticated, Message: "the rights have ended"}
		}
		return nil
	}
	return func() {
		revoked.Store(true)
		next := make(chan struct{})
		close(*b.revocation.Swap(&next))
	}
}

// run starts a Dispatcher inside a synctest bubble. The Dispatcher ends with the test.
func run(t *testing.T, store *fakeStore, edits ...func(*settings)) *harness {
	t.Helper()
	s := settings{Config: dispatch.DefaultConfig(), smart: dispatch.DefaultSmartPoll()}
	for _, edit := range edits {
		edit(&s)
	}
	core, logs := observer.New(zap.InfoLevel)
	b := &harness{t: t, store: store, bus: &events.Bus{}, reg: prometheus.NewRegistry(), logs: logs}
	b.unproven.Store(s.unproven)
	next := make(chan struct{})
	b.revocation.Store(&next)
	metrics := dispatch.NewMetrics(b.reg)
	tracker := readiness.New(s.FallbackInterval)
	b.intents = dispatch.NewIntents(metrics)
	b.Dispatcher = dispatch.New(dispatch.Deps{
		Store: store, Intents: b.intents, Readiness: tracker, Events: b.bus,
		Proven: func() bool { return !b.unproven.Load() }, Paused: b.pause, Metrics: metrics,
		NextRevocation: func() <-chan struct{} { return *b.revocation.Load() }, Log: zap.New(core),
	}, s.Config, s.smart)
	var ctx context.Context
	ctx, b.end = context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		b.Stop()
		synctest.Wait()
		b.end()
		require.NoError(t, <-done)
		tracker.Close()
	})
	return b
}

// value returns the sum of a metric over its labels, or the number of
// observations of a histogram.
func (b *harness) value(name string) (sum float64) {
	b.t.Helper()
	families, err := b.reg.Gather()
	require.NoError(b.t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		return sum
	}
	require.Fail(b.t, "no such metric", name)
	return 0
}

// labelled returns the value of a metric with the given label values.
func (b *harness) labelled(name string, labels ...string) float64 {
	b.t.Helper()
	families, err := b.reg.Gather()
	require.NoError(b.t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var values []string
			for _, label := range m.GetLabel() {
				values = append(values, label.GetValue())
			}
			slices.Sort(values)
			slices.Sort(labels)
			if family.GetName() == name && slices.Equal(values, labels) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// ready commits n messages in a partition of the group and announces them.
func (b *harness) ready(group, partition int64, n int) {
	b.store.put(group, partition, n, 0)
	b.bus.Ready([]queue.Ready{{Group: group, Partition: partition}}, events.Here)
}

// resync commits one message in each of the partitions of group 1, and wakes all requests.
func (b *harness) resync(partitions ...int64) {
	for _, p := range partitions {
		b.store.put(1, p, 1, 0)
	}
	b.bus.Resync("for the test", events.Peer)
}

// request returns a pop of the queue whose group has the id 1.
func request(wait time.Duration) *queue.PopRequest {
	return &queue.PopRequest{Queue: "orders", Group: "g", Batch: 1, Partitions: 1, Wait: wait}
}

// specific returns a pop of partition 1.
func specific(wait time.Duration) *queue.PopRequest {
	partition := "1"
	req := request(wait)
	req.Partition = &partition
	return req
}

// answer is the result of a Pop, and how long Pop took.
type answer struct {
	queue.Delivery
	err  error
	took time.Duration
}

// begin pops in a goroutine. The answer arrives on the channel.
func (b *harness) begin(ctx context.Context, req *queue.PopRequest) <-chan answer {
	out, began := make(chan answer, 1), time.Now()
	go func() {
		got, err := b.Pop(ctx, req)
		if got == nil {
			got = &queue.Delivery{}
		}
		out <- answer{*got, err, time.Since(began)}
	}()
	return out
}

// wait pops with a timeout of an hour, and returns when the request waits for a wake.
func (b *harness) wait() <-chan answer {
	b.t.Helper()
	out := b.begin(b.t.Context(), request(time.Hour))
	pending(b.t, out)
	return out
}

// many begins n requests. The first request probes before the others arrive, so the others know that the target is empty.
func (b *harness) many(n int) []<-chan answer {
	b.t.Helper()
	outs := make([]<-chan answer, n)
	for i := range outs {
		outs[i] = b.begin(b.t.Context(), request(time.Hour))
		if i == 0 {
			pending(b.t, outs[0])
		}
	}
	for _, out := range outs {
		pending(b.t, out)
	}
	return outs
}

// answered returns the answer, which must exist when all goroutines are blocked. The fake clock does not advance.
func answered(t *testing.T, out <-chan answer) answer {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-out:
		return a
	default:
		require.Fail(t, "the request is still waiting")
		return answer{}
	}
}

// delivered is like answered, and requires messages.
func delivered(t *testing.T, out <-chan answer) answer {
	t.Helper()
	a := answered(t, out)
	require.NoError(t, a.err)
	require.NotEmpty(t, a.Messages)
	return a
}

// pending checks that there is no answer yet.
func pending(t *testing.T, out <-chan answer) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-out:
		require.Fail(t, "the request was answered too early", "after %s: %v, %d messages", a.took, a.err, len(a.Messages))
	default:
	}
}

// split counts the requests answered with messages and the requests that wait.
func split(t *testing.T, outs []<-chan answer) (got, waiting int) {
	t.Helper()
	synctest.Wait()
	for _, out := range outs {
		select {
		case a := <-out:
			require.NoError(t, a.err)
			require.NotEmpty(t, a.Messages)
			got++
		default:
			waiting++
		}
	}
	return got, waiting
}

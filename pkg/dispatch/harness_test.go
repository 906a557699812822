package dispatch_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore answers looks with pop and notes when they happened and which
// leases came back. Without pop it never has anything.
type fakeStore struct {
	pop     func(ctx context.Context, req *queue.PopRequest, look int) (queue.Delivery, error)
	release error

	mu       sync.Mutex
	looks    []time.Time
	released []queue.ID
}

func (f *fakeStore) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	f.mu.Lock()
	f.looks = append(f.looks, time.Now())
	look := len(f.looks)
	f.mu.Unlock()
	if f.pop == nil {
		return queue.Delivery{Queue: req.Queue, Group: req.Group}, nil
	}
	return f.pop(ctx, req, look)
}

func (f *fakeStore) Release(_ context.Context, lease queue.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = append(f.released, lease)
	return f.release
}

func (f *fakeStore) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.looks)
}

// gaps returns the times between the looks.
func (f *fakeStore) gaps() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(f.looks); i++ {
		gaps = append(gaps, f.looks[i].Sub(f.looks[i-1]))
	}
	return gaps
}

func (f *fakeStore) leases() []queue.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.released)
}

// delivery is one message under a lease.
func delivery(lease queue.ID) queue.Delivery {
	return queue.Delivery{Queue: "orders", Group: "g", LeaseID: lease, Partitions: 1, Messages: make([]queue.Message, 1)}
}

func request(wait time.Duration) *queue.PopRequest {
	return &queue.PopRequest{Queue: "orders", Group: "g", Batch: 1, Partitions: 1, Wait: wait}
}

// answer is what a Pop returned, and when.
type answer struct {
	queue.Delivery
	err  error
	took time.Duration
}

// start pops in a goroutine; the answer comes on the channel.
func start(ctx context.Context, d *dispatch.Dispatcher, wait time.Duration) <-chan answer {
	out, began := make(chan answer, 1), time.Now()
	go func() {
		got, err := d.Pop(ctx, request(wait))
		out <- answer{got, err, time.Since(began)}
	}()
	return out
}

// settled returns the answer that must be there once nothing moves any more,
// without the clock having moved.
func settled(t *testing.T, out <-chan answer) answer {
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

// pending checks that there is no answer yet.
func pending(t *testing.T, out <-chan answer) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-out:
		require.Fail(t, "the request was answered too early", "after %s: %v", a.took, a.err)
	default:
	}
}

func dispatcher(store dispatch.Store, edit ...func(*dispatch.Config)) *dispatch.Dispatcher {
	cfg := dispatch.DefaultConfig()
	for _, e := range edit {
		e(&cfg)
	}
	return dispatch.New(store, cfg, zap.NewNop())
}

func logged(store dispatch.Store) (*dispatch.Dispatcher, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	return dispatch.New(store, dispatch.DefaultConfig(), zap.New(core)), logs
}

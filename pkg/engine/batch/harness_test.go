package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The errors of the fake database. judge has a verdict for each error.
var (
	errBad       = errors.New("a bad value")
	errTransient = errors.New("the connection broke")
	errUnknown   = errors.New("the outcome is unknown")
)

func judge(err error) batch.Verdict {
	switch {
	case errors.Is(err, errTransient):
		return batch.Retry
	case errors.Is(err, errUnknown):
		return batch.Fail
	default:
		return batch.Split
	}
}

// flight is a flush that waits until the test ends it.
type flight struct {
	ops []string
	// land ends the flush with a result.
	land func(each []error, err error)
}

// harness is a manager whose flushes end when the test says so.
type harness struct {
	*batch.Manager[string]
	t *testing.T

	mu      sync.Mutex
	flights []*flight
	tries   []string
	// failed counts the verdicts. flushed lists the sizes.
	failed  map[batch.Verdict]int
	flushed []int
	// answer, if not nil, ends each flush at once.
	answer func(ops []string) ([]error, error)
}

func (h *harness) Flushed(_, size int, _ time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flushed = append(h.flushed, size)
}

func (h *harness) Failed(v batch.Verdict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed[v]++
}

func (h *harness) flush(_ context.Context, ops []string) ([]error, error) {
	h.mu.Lock()
	h.tries = append(h.tries, strings.Join(ops, " "))
	answer := h.answer
	type outcome struct {
		each []error
		err  error
	}
	landed := make(chan outcome)
	if answer == nil {
		h.flights = append(h.flights, &flight{slices.Clone(ops), func(each []error, err error) { landed <- outcome{each, err} }})
	}
	h.mu.Unlock()
	if answer != nil {
		return answer(ops)
	}
	o := <-landed
	return o.each, o.err
}

// inFlight returns the batches in flight once all goroutines are blocked.
func (h *harness) inFlight() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, f := range h.flights {
		all = append(all, strings.Join(f.ops, " "))
	}
	return all
}

// land ends the oldest flight.
func (h *harness) land(each []error, err error) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	require.NotEmpty(h.t, h.flights, "nothing is in flight")
	first := h.flights[0]
	h.flights = h.flights[1:]
	h.mu.Unlock()
	first.land(each, err)
	synctest.Wait()
}

// landAll ends flights until none is left.
func (h *harness) landAll() {
	for len(h.inFlight()) > 0 {
		h.land(nil, nil)
	}
}

func (h *harness) tried() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.tries)
}

// begin starts an operation. Its outcome arrives on the channel.
func (h *harness) begin(ctx context.Context, name string, stripes []batch.LockStripe, size int) <-chan error {
	out := make(chan error, 1)
	go func() { out <- h.Do(ctx, name, stripes, size) }()
	synctest.Wait() // so that operations arrive in the order in which they begin
	return out
}

// do begins an operation of size 1 without stripes.
func (h *harness) do(name string) <-chan error { return h.begin(h.t.Context(), name, nil, 1) }

func (h *harness) doMany(prefix string, n int) []<-chan error {
	outs := make([]<-chan error, n)
	for i := range outs {
		outs[i] = h.do(fmt.Sprint(prefix, i))
	}
	return outs
}

// outcome returns the outcome of an operation. It fails the test if no outcome exists when all
// goroutines are blocked.
func outcome(t *testing.T, out <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-out:
		return err
	default:
		require.FailNow(t, "the operation has no outcome yet")
		return nil
	}
}

// requirePending requires that the operation has no outcome yet.
func requirePending(t *testing.T, out <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-out:
		require.FailNow(t, "the operation already has an outcome", "%v", err)
	default:
	}
}

// inBubble runs a test with a manager in a synctest bubble. edit, if not nil, changes the configuration.
func inBubble(t *testing.T, edit func(*batch.Config), test func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		cfg := batch.Config{MaxSize: 100, QueueSize: 1000, MaxFlushes: 1, ConcurrentSize: 1, Retries: 2}
		if edit != nil {
			edit(&cfg)
		}
		require.NoError(t, cfg.Validate())
		h := &harness{t: t, failed: map[batch.Verdict]int{}}
		h.Manager = batch.New(cfg, h.flush, judge, h)
		test(t, h)
	})
}

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

	"github.com/belfry-mq/belfry/pkg/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The errors of the fake database, and what the judge makes of them.
var (
	errBad     = errors.New("a bad value")
	errPassing = errors.New("the connection broke")
	errUnknown = errors.New("the outcome is unknown")
)

func judge(err error) batch.Verdict {
	switch {
	case errors.Is(err, errPassing):
		return batch.Retry
	case errors.Is(err, errUnknown):
		return batch.Fail
	default:
		return batch.Split
	}
}

// flight is a flush that waits for its end.
type flight struct {
	ops []string
	// land ends it.
	land func(each []error, err error)
}

// tower is a manager whose flushes end when the test says so.
type tower struct {
	*batch.Manager[string]
	t *testing.T

	mu      sync.Mutex
	flights []*flight
	tries   []string
	// failed counts the verdicts, flushed the sizes.
	failed  map[batch.Verdict]int
	flushed []int
	// answer, when it is set, ends flushes at once.
	answer func(ops []string) ([]error, error)
}

func (w *tower) Flushed(_, size int, _ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed = append(w.flushed, size)
}

func (w *tower) Failed(v batch.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[v]++
}

func newTower(t *testing.T, edits ...func(*batch.Config)) *tower {
	t.Helper()
	cfg := batch.Config{MaxSize: 100, QueueSize: 1000, MaxFlushes: 1, ConcurrentSize: 1, Retries: 2}
	for _, edit := range edits {
		edit(&cfg)
	}
	require.NoError(t, cfg.Validate())
	w := &tower{t: t, failed: map[batch.Verdict]int{}}
	w.Manager = batch.New(cfg, w.flush, judge, w)
	return w
}

func (w *tower) flush(_ context.Context, ops []string) ([]error, error) {
	w.mu.Lock()
	w.tries = append(w.tries, strings.Join(ops, " "))
	answer := w.answer
	type outcome struct {
		each []error
		err  error
	}
	landed := make(chan outcome)
	if answer == nil {
		w.flights = append(w.flights, &flight{slices.Clone(ops), func(each []error, err error) { landed <- outcome{each, err} }})
	}
	w.mu.Unlock()
	if answer != nil {
		return answer(ops)
	}
	o := <-landed
	return o.each, o.err
}

// inFlight returns the batches that are in flight once nothing moves.
func (w *tower) inFlight() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, f := range w.flights {
		all = append(all, strings.Join(f.ops, " "))
	}
	return all
}

// land ends the oldest flight.
func (w *tower) land(each []error, err error) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	require.NotEmpty(w.t, w.flights, "nothing is in flight")
	first := w.flights[0]
	w.flights = w.flights[1:]
	w.mu.Unlock()
	first.land(each, err)
	synctest.Wait()
}

// landAll ends flights until there is none.
func (w *tower) landAll() {
	for len(w.inFlight()) > 0 {
		w.land(nil, nil)
	}
}

func (w *tower) tried() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tries)
}

// begin has an operation done; its outcome comes on the channel.
func (w *tower) begin(ctx context.Context, name string, lanes []batch.LockStripe, size int) <-chan error {
	out := make(chan error, 1)
	go func() { out <- w.Do(ctx, name, lanes, size) }()
	synctest.Wait() // so that operations come in the order they are begun
	return out
}

// do begins an operation of size 1 without lanes.
func (w *tower) do(name string) <-chan error { return w.begin(w.t.Context(), name, nil, 1) }

func (w *tower) doMany(prefix string, n int) []<-chan error {
	outs := make([]<-chan error, n)
	for i := range outs {
		outs[i] = w.do(fmt.Sprint(prefix, i))
	}
	return outs
}

// outcome returns what must be there once nothing moves.
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

func open(t *testing.T, out <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-out:
		require.FailNow(t, "the operation has an outcome already", "%v", err)
	default:
	}
}

// bubble runs a test in a synctest bubble.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

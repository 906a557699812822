package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// culpritRetry is when the other intents of a target probe after a claim that the database refused,
// or after a panic. At once, each of them would get the same error, one after the other.
const culpritRetry = time.Second

// hasCulprit reports whether one value of a statement may be the reason of its error. If the
// database is unavailable, every statement fails, so no value is the reason.
func hasCulprit(err error) bool {
	switch queue.CodeOf(err) {
	case "", queue.CodeUnavailable, queue.CodeOverloaded:
		return false
	default:
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
}

// isolate calls try for the items 0 to n-1. If try fails because of one item, isolate halves the
// items until fail is called for the items that fail alone. A part without the item is tried once
// more. After an error that has no culprit, fail is called for all items that were not done.
func (w *worker) isolate(n int, try func(from, to int) error, fail func(i int, err error)) {
	parts := [][2]int{{0, n}} // the parts to try, the lowest one last
	for len(parts) > 0 {
		last := len(parts) - 1
		from, to := parts[last][0], parts[last][1]
		parts = parts[:last]
		err := try(from, to)
		switch {
		case err == nil:
		case hasCulprit(err) && to-from > 1:
			w.d.Metrics.splits.Inc()
			middle := from + (to-from)/2
			parts = append(parts, [2]int{middle, to}, [2]int{from, middle})
		default:
			if !hasCulprit(err) {
				to, parts = n, nil
			}
			for i := from; i < to; i++ {
				fail(i, err)
			}
		}
	}
}

// guard calls work, which answers the intents. If work panics, the intents without an answer get
// CodeInternal.
func (w *worker) guard(intents []*roundIntent, work func()) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		w.d.Metrics.panics.Inc()
		w.d.Log.Error("a round panicked; its requests got an error and the server goes on",
			zap.Any("panic", value), zap.Int("requests", len(intents)), zap.Stack("stack"))
		err := &queue.Error{Code: queue.CodeInternal, Message: "internal error", Err: fmt.Errorf("panic in a round: %v", value)}
		for _, r := range intents {
			w.d.Readiness.SetUnknown(r.target, readiness.NextDue{Known: true, In: culpritRetry})
			r.answer(roundReply{err: err})
		}
	}()
	work()
}

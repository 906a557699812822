package listen

import (
	"fmt"
	"time"

	"go.uber.org/zap"
)

const (
	// garbageInterval is the shortest time between two calls of OnGarbage.
	garbageInterval = time.Second
	// garbageLogInterval is the shortest time between two log lines about garbage.
	garbageLogInterval = time.Minute
)

// garbageLimit is what the watch loop knows about garbage.
type garbageLimit struct {
	// timer fires when the latest garbage must be answered. It runs if pending is not nil.
	timer   *time.Timer
	pending error
	// answered is when OnGarbage was called last, and logged is when garbage was logged last.
	answered, logged time.Time
}

// reportGarbage reports a notification that could not be read to the watch loop. It does not block.
func (l *Listener) reportGarbage(err error) {
	l.garbage.Add(1)
	select {
	case l.unreadable <- err:
	default: // the error in the channel covers this one
	}
}

// onGarbage answers garbage at once, or garbageInterval after the last answer. The answer comes after
// the garbage was read, so one answer covers everything that was read before it.
func (w *watcher) onGarbage(err error) {
	now := time.Now()
	if now.Sub(w.garbageLimit.logged) >= garbageLogInterval {
		w.garbageLimit.logged = now
		w.log.Warn("a notification could not be read; every role of the database can send one",
			zap.Int64("garbage_so_far", w.Garbage()), zap.Error(err))
	}
	if w.garbageLimit.pending == nil {
		w.garbageLimit.timer.Reset(time.Until(w.garbageLimit.answered.Add(garbageInterval)))
	}
	w.garbageLimit.pending = err
}

// answerGarbage calls OnGarbage for all garbage that was read.
func (w *watcher) answerGarbage() {
	err := w.garbageLimit.pending
	w.garbageLimit.pending, w.garbageLimit.answered = nil, time.Now()
	w.callbacks.OnGarbage(fmt.Sprintf("a notification was not understood: %v", err))
}

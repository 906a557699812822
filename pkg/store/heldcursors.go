package store

import (
	"slices"
	"sync"
	"time"
)

// maxHeldCursors bounds how many held cursors are remembered; of what is beyond that
// each is found held anew.
const maxHeldCursors = 10_000

// heldCursors remembers the cursors that somebody was found to hold, for
// ackPatience or until one of them is got: who touches one of them waits by itself
// from the beginning, and no flush waits for it another time.
type heldCursors struct {
	mu    sync.Mutex
	until map[cursorName]time.Time
	// last is the latest of until.
	last time.Time
}

func newHeldCursors() heldCursors { return heldCursors{until: map[cursorName]time.Time{}} }

// learn notes what a look at cursors found: those that were got, and those that
// somebody holds.
func (h *heldCursors) learn(got, held []cursorName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetOldLocked()
	for _, name := range got {
		delete(h.until, name)
	}
	for _, name := range held {
		if len(h.until) < maxHeldCursors {
			h.last = time.Now().Add(ackPatience)
			h.until[name] = h.last
		}
	}
}

// forgetOldLocked empties the table when all in it is over.
func (h *heldCursors) forgetOldLocked() {
	if len(h.until) > 0 && time.Now().After(h.last) {
		clear(h.until)
	}
}

// among returns those of calls that touch a cursor which is remembered, and the
// others.
func (h *heldCursors) among(calls []*ack) (held map[*ack]*heldError, free []*ack) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetOldLocked()
	held = map[*ack]*heldError{}
	if len(h.until) == 0 {
		return held, calls
	}
	now := time.Now()
	for _, a := range calls {
		at := slices.IndexFunc(a.found, func(item int) bool { return now.Before(h.until[a.cursorOf(item)]) })
		if at < 0 {
			free = append(free, a)
		} else {
			held[a] = &heldError{cursor: a.cursorOf(a.found[at]), since: now}
		}
	}
	return held, free
}

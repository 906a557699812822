package live

import (
	"context"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// recentSize is how many events a hub keeps for watchers that subscribe again. bufferSize is how many events wait
	// for one watcher. A slow watcher loses its oldest events.
	recentSize, bufferSize = 1024, 1024
	// lingerTime is how long a hub collects events after its last watcher has left. A watcher that subscribes again in
	// that time misses no event.
	lingerTime = 30 * time.Second
)

// Watcher receives events. Only one goroutine at a time may call its methods.
type Watcher struct {
	hub    *Hub
	filter Filter
	// The mutex of the hub guards the fields below. fresh is true if the watcher still waits for its snapshot. It gets
	// no event before the snapshot.
	fresh   bool
	closed  bool
	buffer  []Event
	dropped int
	// ready has an element if the buffer may have events, or the watcher is closed.
	ready events.Signal
}

// Watch subscribes to the events that the filter lets through. after is the id of the last event that a
// previous watcher has seen, or empty:
//
//   - If after is among the last 1,024 events of this process, the watcher first gets the events after it.
//   - If after is another id, the watcher first gets a TypeDropped and a TypeSnapshot.
//   - If after is empty, the watcher first gets a TypeSnapshot.
//
// The caller must call Close. Watch does not block. Errors: CodeOverloaded if there are live.max_watchers watchers, and
// after Stop.
func (h *Hub) Watch(f Filter, after string) (*Watcher, error) {
	w := &Watcher{hub: h, filter: f, fresh: true, ready: events.NewSignal()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil, &queue.Error{Code: queue.CodeOverloaded, Message: "the server stops: send the request again", RetryAfter: time.Second}
	}
	if len(h.watchers) >= h.cfg.MaxWatchers {
		return nil, &queue.Error{
			Code: queue.CodeOverloaded, Message: "too many clients watch the events (live.max_watchers); send the request again",
			RetryAfter: time.Duration(1+rand.IntN(3)) * time.Second,
		}
	}
	h.watchers[w] = struct{}{}
	h.activateLocked(time.Now())
	if after != "" {
		h.replayLocked(w, after)
	}
	if h.known {
		h.greetLocked(w)
	}
	return w, nil
}

// replayLocked delivers the events after an id, or TypeDropped if the hub no longer has them.
func (h *Hub) replayLocked(w *Watcher, after string) {
	epoch, text, _ := strings.Cut(after, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	oldest := h.number - uint64(len(h.recent)) // the number before the first recent event
	if err != nil || epoch != h.epoch || number < oldest || number > h.number {
		w.fresh = false
		w.deliver(Event{Type: TypeDropped, At: time.Now(), Instance: h.Instance, Data: api.Dropped{}})
		w.fresh = true
		return
	}
	w.fresh = false
	for _, e := range h.recent[number-oldest:] {
		w.deliver(e)
	}
}

// greetLocked delivers the snapshot to a watcher that has none.
func (h *Hub) greetLocked(w *Watcher) {
	if w.fresh {
		w.fresh = false
		w.deliver(Event{ID: h.idLocked(), Type: TypeSnapshot, At: time.Now(), Instance: h.Instance, Data: h.snapshotLocked()})
	}
}

// deliver puts an event into the buffer. The caller holds the mutex of the hub.
func (w *Watcher) deliver(e Event) {
	if w.fresh || w.closed {
		return
	}
	seen, ok := w.filter.apply(e)
	if !ok {
		return
	}
	if len(w.buffer) >= bufferSize {
		w.buffer = w.buffer[1:]
		w.dropped++
	}
	w.buffer = append(w.buffer, seen)
	w.ready.Set()
}

// Ready returns a channel that has an element when Take may return something.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Take returns the events since the last call. If the watcher was too slow, the first one is a
// TypeDropped with the number of lost events. open is false after the last event.
func (w *Watcher) Take() (events []Event, open bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.dropped > 0 {
		events = append(events, Event{Type: TypeDropped, At: time.Now(), Instance: w.hub.Instance, Data: api.Dropped{Count: w.dropped}})
		w.dropped = 0
	}
	events = append(events, w.buffer...)
	w.buffer = nil
	return events, !w.closed
}

// Events returns an iterator over the events. It ends when ctx ends or the server stops. Each step blocks until there is
// an event.
func (w *Watcher) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.ready:
			}
			events, open := w.Take()
			for _, e := range events {
				if !yield(e) {
					return
				}
			}
			if !open {
				return
			}
		}
	}
}

// Close unsubscribes the watcher. A second call does nothing.
func (w *Watcher) Close() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, watching := h.watchers[w]; !watching {
		return
	}
	delete(h.watchers, w)
	w.closed = true
	w.ready.Set()
	if len(h.watchers) == 0 {
		h.lingerUntil = time.Now().Add(lingerTime)
		h.wakeLocked()
	}
}

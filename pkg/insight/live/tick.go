package live

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/history"
)

const (
	// maxShown is how many queues one Rates event has at most.
	maxShown = 1000
	// waitingTolerance is 10: a change of the waiting requests of a queue by at most 1/10 causes no event.
	waitingTolerance = 10
)

// ratesState has the values of the last Rates event.
type ratesState struct {
	busy bool
	// said has the last published number of waiting requests of each queue. sampled has the numbers at the last tick.
	said, sampled map[string]int
}

// runTicks calls tick once in tickInterval while an instance has watchers. It calls tick earlier for the first event
// after a quiet time.
func (h *Hub) runTicks(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		if h.active.Load() {
			timer.Reset(time.Until(h.nextTick()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.wakeTick:
		case <-timer.C:
			h.tick(time.Now())
		}
	}
}

// nextTick returns when the next tick is due. Two ticks with rates or events are at least tickInterval apart.
func (h *Hub) nextTick() time.Time {
	first := h.activity.begun()
	h.mu.Lock()
	defer h.mu.Unlock()
	next := h.lastTick.Add(tickInterval)
	if first.IsZero() {
		return next
	}
	soon := first.Add(gather)
	if earliest := h.lastSaid.Add(tickInterval); soon.Before(earliest) {
		soon = earliest
	}
	if soon.Before(next) {
		return soon
	}
	return next
}

// tick publishes the counts since the last tick. If other instances need them, it sends one notification.
func (h *Hub) tick(now time.Time) {
	over, counted := h.activity.take(now), h.Counts.TakeWatched()
	waiting := h.WaitingByQueue()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastTick, h.heardPace = now, 0
	// The ticks since lastSaid had no counts. So the rates of an early tick cover the time since lastSaid, up to a second.
	over = max(over, min(tickInterval, now.Sub(h.lastSaid)))
	rates, ok := h.ratesLocked(counted, over, waiting)
	if ok {
		shown := rates
		shown.Queues, shown.Omitted = limit(rates.Queues, maxShown)
		shown.Instance = h.instanceLocked(now)
		h.publishLocked(Event{Type: TypeRates, Instance: h.Instance, Data: shown})
		h.out.rates = &rates
	}
	for name, c := range counted {
		deleted := api.SweepCounts{Retention: c.RemovedRetention, Completed: c.RemovedCompleted, Evicted: c.RemovedEvicted, Partitions: c.PartitionsDeleted}
		if deleted != (api.SweepCounts{}) {
			e := Event{Type: TypeSweep, Instance: h.Instance, At: now, Queue: name, Data: deleted}
			h.publishLocked(e)
			if len(h.interests) > 0 {
				h.out.add(e)
			}
		}
	}
	if len(counted) > 0 {
		h.movedLocked()
	}
	if ok || len(counted) > 0 || len(h.out.events) > 0 || h.out.audit {
		h.lastSaid = now
	}
	h.flushLocked(now)
	h.settleLocked(now)
}

// ratesLocked returns the rates of the queues that were busy, or whose waiting requests changed. ok is false if there is
// no such queue, except in the first idle second after a busy second.
func (h *Hub) ratesLocked(counted map[string]history.Counts, over time.Duration, waiting map[string]int) (r api.Rates, ok bool) {
	seconds := max(over.Seconds(), 0.001)
	perSecond := func(n int64) float64 { return math.Round(100*float64(n)/seconds) / 100 }
	r = api.Rates{Seconds: math.Round(1000*seconds) / 1000, Queues: []api.QueueRates{}}
	said := map[string]int{}
	for name, c := range counted {
		if c.Messages() > 0 {
			r.Queues = append(r.Queues, api.QueueRates{
				Queue: name, Pushed: perSecond(c.PushMessages), Delivered: perSecond(c.PopMessages), Acked: perSecond(c.AckSuccess),
				Failed: perSecond(c.AckFailed), Waiting: waiting[name], Retried: perSecond(c.AckRetried), DeadLettered: perSecond(c.DeadLetters),
			})
			said[name] = waiting[name]
		}
	}
	busy := len(r.Queues) > 0
	s := &h.rates
	for _, names := range []map[string]int{waiting, s.said} {
		for name := range names {
			if _, done := said[name]; !done && differs(s.said[name], waiting[name]) && differs(s.said[name], s.sampled[name]) {
				r.Queues = append(r.Queues, api.QueueRates{Queue: name, Waiting: waiting[name]})
				said[name] = waiting[name]
			}
		}
	}
	ok = len(r.Queues) > 0 || s.busy
	slices.SortFunc(r.Queues, func(a, b api.QueueRates) int {
		return cmp.Or(cmp.Compare(b.Pushed+b.Delivered+b.Acked+b.Failed, a.Pushed+a.Delivered+a.Acked+a.Failed), cmp.Compare(a.Queue, b.Queue))
	})
	if s.said == nil {
		s.said = map[string]int{}
	}
	for name, n := range said {
		if s.said[name] = n; n == 0 {
			delete(s.said, name)
		}
	}
	s.busy, s.sampled = busy, waiting
	return r, ok
}

// differs reports whether the number of waiting requests changed by more than a tenth, or from or to 0.
func differs(said, now int) bool {
	return (said == 0) != (now == 0) || max(said-now, now-said)*waitingTolerance > said
}

// limit returns the first elements of a list, and the number of omitted elements.
func limit[T any](list []T, most int) (first []T, omitted int) {
	if len(list) <= most {
		return list, 0
	}
	return list[:most], len(list) - most
}

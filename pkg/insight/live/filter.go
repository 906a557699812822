package live

import (
	"slices"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// Filter says what a watcher may see.
type Filter struct {
	// Grants limit the watcher to queues. Nil: it sees all queues, and what is not of one queue.
	Grants *identity.Grants
	// Audit: it also sees the audit, of the queues that its grants allow to administer.
	Audit bool
}

// apply returns what the watcher sees of an event. ok is false if that is nothing.
func (f *Filter) apply(e Event) (seen Event, ok bool) {
	if e.Type == TypeAudit {
		return e, f.Audit && (f.Grants == nil || e.Queue != "" && f.Grants.MayAdminister(e.Queue))
	}
	if f.Grants == nil {
		return e, true
	}
	switch data := e.Data.(type) {
	case Rates:
		e.Data = f.rates(data)
		return e, true
	case Snapshot:
		e.Data = f.snapshot(data)
		return e, true
	case Dropped:
		return e, true
	}
	return e, e.Type == TypeClosing || e.Queue != "" && f.Grants.MayRead(e.Queue)
}

// rates hides the figures of the instance, and counts no omitted queues: they may be other ones.
func (f *Filter) rates(r Rates) Rates {
	return Rates{Seconds: r.Seconds, Queues: only(r.Queues, func(q QueueRates) bool { return f.Grants.MayRead(q.Queue) })}
}

func (f *Filter) snapshot(s Snapshot) Snapshot {
	return Snapshot{
		Queues:      only(s.Queues, func(q QueueWaiting) bool { return f.Grants.MayRead(q.Queue) }),
		Lag:         only(s.Lag, func(l Lag) bool { return f.Grants.MayRead(l.Queue) }),
		DeadLetters: only(s.DeadLetters, func(d DeadLetters) bool { return f.Grants.MayRead(d.Queue) }),
	}
}

// only returns the elements that keep accepts, in a list of its own.
func only[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(element T) bool { return !keep(element) })
}

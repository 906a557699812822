package live

import (
	"slices"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Filter selects the events that a watcher may see.
type Filter struct {
	// Grants limit the watcher to events of queues that it may read. If Grants is nil, the watcher sees the
	// events of all queues and instances.
	Grants *identity.Grants
	// Audit is true if the watcher also sees the audit of the queues that it may administer.
	Audit bool
}

// apply returns the part of an event that the watcher may see. ok is false if the watcher may not see the event.
func (f *Filter) apply(e Event) (seen Event, ok bool) {
	if e.Type == TypeAudit {
		return e, f.Audit && (f.Grants == nil || e.Queue != "" && f.Grants.MayAdminister(e.Queue))
	}
	if f.Grants == nil {
		return e, true
	}
	switch data := e.Data.(type) {
	case api.Rates:
		e.Data = f.rates(data)
		return e, true
	case api.Snapshot:
		e.Data = f.snapshot(data)
		return e, true
	case api.Dropped:
		return e, true
	}
	return e, e.Type == TypeClosing || e.Queue != "" && f.Grants.MayRead(e.Queue)
}

// rates hides the figures of the instance. It does not return Omitted, because the watcher may not see the omitted
// queues.
func (f *Filter) rates(r api.Rates) api.Rates {
	return api.Rates{Seconds: r.Seconds, Queues: only(r.Queues, func(q api.QueueRates) bool { return f.Grants.MayRead(q.Queue) })}
}

func (f *Filter) snapshot(s api.Snapshot) api.Snapshot {
	return api.Snapshot{
		Queues:      only(s.Queues, func(q api.QueueWaiting) bool { return f.Grants.MayRead(q.Queue) }),
		Lag:         only(s.Lag, func(l api.LateGroup) bool { return f.Grants.MayRead(l.Queue) }),
		DeadLetters: only(s.DeadLetters, func(d api.DeadLetterGroup) bool { return f.Grants.MayRead(d.Queue) }),
	}
}

// only returns a new list with the elements that keep accepts.
func only[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(element T) bool { return !keep(element) })
}

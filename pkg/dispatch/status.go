package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// statusLimit bounds each list of a Status.
const statusLimit = 100

// Status is what a person sees who asks why nothing arrives.
type Status struct {
	Waiting int
	// Groups are the waiting requests by what they wait for, most first.
	Groups []WaitingGroup
	// Due are the next instants at which requests are woken without being told.
	Due []DueInstant
	// Backoff are the groups that look by timer, while the listener is not
	// proven.
	Backoff []BackoffGroup
	// Truncated: a list is longer than what is shown.
	Truncated bool
}

// WaitingGroup is what some requests wait for.
type WaitingGroup struct {
	Queue, Partition, Group string
	Namespace, Task         string
	Waiting                 int
	// Oldest is how long the first of them has been waiting, Next how long until
	// one of them times out.
	Oldest, Next time.Duration
}

// DueInstant is an instant a group is woken at.
type DueInstant struct {
	Target queue.Target
	In     time.Duration
}

// BackoffGroup is a group that backs off.
type BackoffGroup struct {
	Target queue.Target
	// Empties is how many looks in a row found nothing, Delay the wait before
	// the next one.
	Empties int
	Delay   time.Duration
}

// Status describes the waiting requests.
func (d *Dispatcher) Status() Status {
	s := Status{Waiting: d.Waiting(), Groups: d.intents.groups(time.Now())}
	for _, instant := range d.notifier.Due(statusLimit + 1) {
		s.Due = append(s.Due, DueInstant{Target: instant.Key.target, In: time.Until(instant.At)})
	}
	for target, empties := range d.backoffs.snapshot() {
		s.Backoff = append(s.Backoff, BackoffGroup{Target: target, Empties: empties, Delay: d.policy.Delay(empties+1, 0)})
	}
	slices.SortFunc(s.Backoff, func(a, b BackoffGroup) int { return cmp.Compare(b.Empties, a.Empties) })
	s.Groups, s.Truncated = cut(s.Groups, s.Truncated)
	s.Due, s.Truncated = cut(s.Due, s.Truncated)
	s.Backoff, s.Truncated = cut(s.Backoff, s.Truncated)
	return s
}

func cut[T any](list []T, truncated bool) ([]T, bool) {
	if len(list) <= statusLimit {
		return list, truncated
	}
	return list[:statusLimit], true
}

func (r *Intents) groups(now time.Time) []WaitingGroup {
	r.mu.Lock()
	byName := map[WaitingGroup]*WaitingGroup{}
	for in := range r.m {
		name := WaitingGroup{Queue: in.req.Queue, Group: in.req.Group}
		if in.req.Partition != nil {
			name.Partition = *in.req.Partition
		}
		if in.req.Tags != nil {
			name.Namespace, name.Task = in.req.Tags.Namespace, in.req.Tags.Task
		}
		g := byName[name]
		if g == nil {
			one := name
			one.Next = in.deadline.Sub(now)
			g = &one
			byName[name] = g
		}
		g.Waiting++
		g.Oldest = max(g.Oldest, now.Sub(in.since))
		g.Next = min(g.Next, in.deadline.Sub(now))
	}
	r.mu.Unlock()
	list := make([]WaitingGroup, 0, len(byName))
	for _, g := range byName {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b WaitingGroup) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group))
	})
	return list
}

package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// statusLimit bounds each list of a Status.
const statusLimit = 100

// Status shows why intents wait.
type Status struct {
	Waiting int
	// Groups counts the intents that wait for the same names. The largest count is first.
	Groups []WaitingGroup
	// Due are the next instants at which the timer wakes intents.
	Due []DueInstant
	// Backoff are the groups that probe by a timer because the listener is not proven.
	Backoff []BackoffGroup
	// Truncated: a list had more than statusLimit entries.
	Truncated bool
}

// WaitingGroup counts the intents that wait for the same names.
type WaitingGroup struct {
	Queue, Partition, Group string
	Namespace, Task         string
	Waiting                 int
	// Oldest is the longest time that one of these intents has waited. Next is the time until the first of them times out.
	Oldest, Next time.Duration
}

// DueInstant is the time until the intents of a target wake.
type DueInstant = readiness.Scheduled

// BackoffGroup is the backoff of a group.
type BackoffGroup struct {
	Target queue.Target
	// EmptyProbes is the number of consecutive probes that found nothing. Delay is the time before the next probe.
	EmptyProbes int
	Delay       time.Duration
}

// Status describes the intents.
func (d *Dispatcher) Status() Status {
	s := Status{
		Waiting: d.Waiting(), Groups: d.Intents.groups(time.Now()), Due: d.Readiness.Scheduled(statusLimit + 1),
	}
	for target, empty := range d.backoffs.Failed() {
		s.Backoff = append(s.Backoff, BackoffGroup{Target: target, EmptyProbes: empty, Delay: d.backoff.Delay(empty+1, 0)})
	}
	slices.SortFunc(s.Backoff, func(a, b BackoffGroup) int { return cmp.Compare(b.EmptyProbes, a.EmptyProbes) })
	s.Groups, s.Truncated = cut(s.Groups, s.Truncated)
	s.Due, s.Truncated = cut(s.Due, s.Truncated)
	s.Backoff, s.Truncated = cut(s.Backoff, s.Truncated)
	return s
}

// WaitingFor counts the intents that a message could wake. target names the partition of the message, its
// queue, the tags of the queue, and a group. An intent of this group counts if it waits for the partition,
// for any partition of the queue, or for the tags.
func (d *Dispatcher) WaitingFor(target WaitingGroup) int {
	r := d.Intents
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for in := range r.admission.waiting {
		req := in.req
		byName := req.Tags == nil && req.Queue == target.Queue && (req.Partition == nil || *req.Partition == target.Partition)
		byTags := req.Tags != nil && (req.Tags.Namespace == "" || req.Tags.Namespace == target.Namespace) &&
			(req.Tags.Task == "" || req.Tags.Task == target.Task)
		if req.Group == target.Group && (byName || byTags) {
			n++
		}
	}
	return n
}

func cut[T any](list []T, truncated bool) ([]T, bool) {
	if len(list) <= statusLimit {
		return list, truncated
	}
	return list[:statusLimit], true
}

// WaitingGroups counts all intents by the names that they wait for.
func (d *Dispatcher) WaitingGroups() []WaitingGroup { return d.Intents.groups(time.Now()) }

// groups counts the intents by the names that they wait for.
func (r *Intents) groups(now time.Time) []WaitingGroup {
	r.mu.Lock()
	byName := map[WaitingGroup]*WaitingGroup{}
	for in := range r.admission.waiting {
		name := WaitingGroup{Queue: in.req.Queue, Group: in.req.Group}
		if in.req.Partition != nil {
			name.Partition = *in.req.Partition
		}
		if in.req.Tags != nil {
			name.Namespace, name.Task = in.req.Tags.Namespace, in.req.Tags.Task
		}
		g := byName[name]
		if g == nil {
			g = &WaitingGroup{}
			*g, byName[name] = name, g
			g.Next = in.deadline.Sub(now)
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

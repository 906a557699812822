package dispatch

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// A refused request is asked to come back after a whole number of seconds, which is different for
// each request: from overloadRetry to overloadRetry + overloadJitter.
const (
	overloadRetry  = time.Second
	overloadJitter = 2 * time.Second
)

// refusal is why a request may not wait, as the metrics name it.
type refusal string

const (
	admitted      refusal = ""
	refusedFull   refusal = "full"
	refusedCaller refusal = "caller"
	refusedGroup  refusal = "group"
)

// refusalTexts are the texts for the client.
var refusalTexts = map[refusal]string{
	refusedFull:   "too many requests are waiting (dispatch.max_intentions); send the request again",
	refusedCaller: "this caller has its share of the requests that may wait (dispatch.max_intentions); send the request again",
	refusedGroup:  "this consumer group has its share of the requests that may wait (dispatch.max_intentions); send the request again",
}

// error returns the error for the client.
func (r refusal) error() error {
	jitter := time.Duration(rand.IntN(int(overloadJitter/time.Second)+1)) * time.Second
	return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: overloadRetry + jitter, Message: refusalTexts[r]}
}

// groupName is what the waiting requests of a consumer group have in common. The group may not exist.
type groupName struct {
	queue, group string
	tags         queue.Tags
}

func groupNameOf(req *queue.PopRequest) groupName {
	name := groupName{queue: req.Queue, group: req.Group}
	if req.Tags != nil {
		name.tags = *req.Tags
	}
	return name
}

// member is one caller of a group.
type member struct {
	group  groupName
	caller string
}

// place is the place of a request among the waiting ones.
type place struct {
	member
	// left: the place was given back. The lock of the admission guards it.
	left bool
}

// displaceFunc ends the wait of a request with such a place, and returns the place. It returns nil if no
// such request sleeps.
type displaceFunc func(which func(member) bool) *place

// admission decides which requests may wait. It is safe for concurrent use.
//
// While fewer requests than the limit wait, every request may wait. So a caller that is alone may use
// everything. At the limit a request can displace a waiting one, whose wait is then over:
//
//  1. With n callers, a share is limit/n. A caller below its share displaces a request of a caller
//     above its share.
//  2. With n groups, a share is limit/n. If no caller is above its share, a group below its share displaces
//     a request of a group above its share. A caller can invent groups, so there are no such shares for
//     more groups than callers.
//  3. A caller that has its share, or is alone, divides what it has among its groups: a group below its
//     part displaces a request of the same caller from a group above its part.
//
// Every other request is refused. A displaced request that comes again finds its caller or its group at
// the share, so two requests do not displace each other in turn.
type admission struct {
	limit int

	mu      sync.Mutex
	waiting int
	// These count the waiting requests. An entry has at least one.
	callers map[string]int
	groups  map[groupName]int
	members map[member]int
	// callerGroups counts the groups of a caller.
	callerGroups map[string]int
}

func newAdmission(limit int) *admission {
	return &admission{
		limit: limit, callers: map[string]int{}, groups: map[groupName]int{},
		members: map[member]int{}, callerGroups: map[string]int{},
	}
}

// enter counts the request as waiting and returns its place, or why it may not wait. The caller calls
// leave for the place. displaced: the wait of another request was ended for it.
func (a *admission) enter(req *queue.PopRequest, displace displaceFunc) (p *place, displaced bool, why refusal) {
	p = &place{member: member{group: groupNameOf(req), caller: req.Caller}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting >= a.limit {
		which, why := a.displaceableLocked(p.member)
		if which == nil {
			return nil, false, why
		}
		other := displace(which)
		if other == nil {
			return nil, false, refusedFull
		}
		a.leaveLocked(other)
		displaced = true
	}
	a.waiting++
	a.callers[p.caller]++
	a.groups[p.group]++
	if a.members[p.member]++; a.members[p.member] == 1 {
		a.callerGroups[p.caller]++
	}
	return p, displaced, admitted
}

// displaceableLocked returns which waiting requests the new one may displace. There is at least one.
// Otherwise it returns nil and why the new request may not wait.
func (a *admission) displaceableLocked(m member) (which func(member) bool, why refusal) {
	callers := countWith(a.callers, m.caller)
	share := a.limit / callers
	if a.callers[m.caller] < share {
		return func(other member) bool { return a.callers[other.caller] > share }, admitted
	}
	groups := countWith(a.groups, m.group)
	groupShare := a.limit / groups
	if callers > a.limit && groups <= callers && a.groups[m.group] < groupShare {
		return func(other member) bool { return a.groups[other.group] > groupShare }, admitted
	}
	ownGroups := a.callerGroups[m.caller]
	if a.members[m] == 0 {
		ownGroups++
	}
	part := a.callers[m.caller] / ownGroups
	if a.members[m] < part {
		return func(other member) bool {
			return other.caller == m.caller && a.members[other] > part
		}, admitted
	}
	switch {
	case ownGroups > 1 && a.members[m] > 0:
		return nil, refusedGroup
	case callers > 1:
		return nil, refusedCaller
	default:
		return nil, refusedFull
	}
}

// leave ends the waiting of a request that was admitted, if it was not displaced.
func (a *admission) leave(p *place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaveLocked(p)
}

func (a *admission) leaveLocked(p *place) {
	if p.left {
		return
	}
	a.waiting--
	decrement(a.callers, p.caller)
	decrement(a.groups, p.group)
	if decrement(a.members, p.member) {
		decrement(a.callerGroups, p.caller)
	}
	p.left = true
}

// count returns how many requests wait.
func (a *admission) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting
}

// countWith returns how many keys there are after key is added.
func countWith[K comparable](counts map[K]int, key K) int {
	if counts[key] > 0 {
		return len(counts)
	}
	return len(counts) + 1
}

// decrement takes one from the count of the key. It returns true if that was the last.
func decrement[K comparable](counts map[K]int, key K) (last bool) {
	counts[key]--
	if last = counts[key] == 0; last {
		delete(counts, key)
	}
	return last
}

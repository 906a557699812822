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

// The shares apply when sharedPercent of dispatch.max_intentions wait.
const sharedPercent = 80

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

// admission decides which requests may wait. It is safe for concurrent use.
//
// While less than sharedPercent of the limit is in use, every request may wait. Above that:
//
//  1. A caller that has its share gets no more. With n callers, a share is limit/(n+1), at least 1:
//     the part of one more caller stays free.
//  2. A group that has its share gets no more. With n groups, a share is limit/(n+1), at least 1. A
//     caller can invent groups, so n is at most the number of callers.
//  3. A caller of such a group may have its part of the group's share. With n callers of the group,
//     a part is share/(n+1), at least 1. So one caller cannot keep the others out of their group.
type admission struct {
	limit int

	mu      sync.Mutex
	waiting int
	// These count the waiting requests. An entry has at least one.
	callers map[string]int
	groups  map[groupName]int
	members map[member]int
	// groupCallers counts the callers of a group.
	groupCallers map[groupName]int
}

func newAdmission(limit int) *admission {
	return &admission{
		limit: limit, callers: map[string]int{}, groups: map[groupName]int{},
		members: map[member]int{}, groupCallers: map[groupName]int{},
	}
}

// enter counts the request as waiting, or returns why it may not wait. After admitted, the caller
// calls leave once.
func (a *admission) enter(req *queue.PopRequest) refusal {
	m := member{group: groupNameOf(req), caller: req.Caller}
	a.mu.Lock()
	defer a.mu.Unlock()
	if why := a.checkLocked(m); why != admitted {
		return why
	}
	a.waiting++
	a.callers[m.caller]++
	a.groups[m.group]++
	if a.members[m]++; a.members[m] == 1 {
		a.groupCallers[m.group]++
	}
	return admitted
}

func (a *admission) checkLocked(m member) refusal {
	if a.waiting >= a.limit {
		return refusedFull
	}
	if a.waiting*100 < a.limit*sharedPercent {
		return admitted
	}
	callers := countWith(a.callers, m.caller)
	if a.callers[m.caller] >= shareOf(a.limit, callers) {
		return refusedCaller
	}
	groupShare := shareOf(a.limit, min(countWith(a.groups, m.group), callers))
	if a.groups[m.group] < groupShare {
		return admitted
	}
	groupCallers := a.groupCallers[m.group]
	if a.members[m] == 0 {
		groupCallers++
	}
	if a.members[m] >= shareOf(groupShare, groupCallers) {
		return refusedGroup
	}
	return admitted
}

// leave ends the waiting of a request that was admitted.
func (a *admission) leave(req *queue.PopRequest) {
	m := member{group: groupNameOf(req), caller: req.Caller}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
	decrement(a.callers, m.caller)
	decrement(a.groups, m.group)
	if decrement(a.members, m) {
		decrement(a.groupCallers, m.group)
	}
}

// count returns how many requests wait.
func (a *admission) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting
}

// shareOf returns the share of one of n. The part of one more stays free.
func shareOf(limit, n int) int { return max(1, limit/(n+1)) }

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

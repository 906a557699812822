package dispatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/heap"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A client that is refused is asked to come back after a whole number of seconds, which is different each
// time: from overloadRetry to overloadRetry + overloadJitter.
const (
	overloadRetry  = time.Second
	overloadJitter = 2 * time.Second
)

// refusal is why an intent may not wait, as the metrics name it.
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
	refusedGroup:  "this consumer group has its part of the requests of this caller that may wait (dispatch.max_intentions); send the request again",
}

// error returns the error for the client.
func (r refusal) error() error {
	jitter := time.Duration(rand.IntN(int(overloadJitter/time.Second)+1)) * time.Second
	return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: overloadRetry + jitter, Message: refusalTexts[r]}
}

// groupName is what the intents of a consumer group have in common. The group may not exist.
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

// callerGroup is a group of one caller.
type callerGroup struct {
	group  groupName
	caller string
}

// admission decides which intents may wait. The lock of the Intents guards it. No method costs more when
// more intents wait, except for the logarithm.
//
// With a limit alone, one caller could take every place, and so keep all others out.
//
// While fewer intents than the limit wait, every intent may wait. So a caller that is alone may use
// everything. At the limit an intent can displace a waiting one, whose wait is then over:
//
//  1. With n callers, a share is limit/n. A caller below its share displaces an intent of a caller
//     above its share.
//  2. With more callers than the limit, no caller is above its share. With n groups, a share is then limit/n,
//     and a group below its share displaces an intent of a group above its share. A caller can invent
//     groups, so there are no such shares for more groups than callers.
//  3. A caller that has its share, or is alone, divides what it has among its groups: a group below its
//     part displaces an intent of the same caller from a group above its part.
//
// The intent to displace is one that sleeps, of the caller or group that has the most intents.
//
// Every other intent is refused. A displaced intent that comes again finds its caller or its group at
// the share, so two intents do not displace each other in turn.
type admission struct {
	limit   int
	waiting map[*intent]struct{}
	// A tally has at least one intent.
	callers      map[string]*tally
	groups       map[groupName]*tally
	callerGroups map[callerGroup]*tally
	byCaller     ranking
	byGroup      ranking
}

func newAdmission() *admission {
	return &admission{
		waiting: map[*intent]struct{}{}, callers: map[string]*tally{}, groups: map[groupName]*tally{}, callerGroups: map[callerGroup]*tally{},
	}
}

// enter counts the intent as waiting, or returns why it may not wait. The caller calls leave. The wait of
// displaced, if it is not nil, is over.
func (a *admission) enter(in *intent) (displaced *intent, why refusal) {
	key := callerGroup{group: groupNameOf(in.req), caller: in.req.Caller}
	if len(a.waiting) >= a.limit {
		if displaced, why = a.toDisplace(key); displaced == nil {
			return nil, why
		}
		a.leave(displaced)
	}
	caller := tallyOf(a.callers, key.caller, &a.byCaller)
	group := tallyOf(a.groups, key.group, &a.byGroup)
	own := tallyOf(a.callerGroups, key, &caller.byGroup)
	in.slot = admissionSlot{key: key, tallies: [tallies]*tally{caller, group, own}}
	a.waiting[in] = struct{}{}
	for _, t := range in.slot.tallies {
		t.add(1)
	}
	if own.waiting == 1 {
		caller.groups++
	}
	return displaced, admitted
}

// toDisplace returns the waiting intent that a new intent may displace. Without such an intent it returns why
// the new intent may not wait.
func (a *admission) toDisplace(key callerGroup) (*intent, refusal) {
	callers, caller := countWith(a.callers, key.caller), a.callers[key.caller]
	if share := a.limit / callers; caller.count() < share {
		return a.byCaller.above(share), refusedFull
	}
	groups := countWith(a.groups, key.group)
	if share := a.limit / groups; callers > a.limit && groups <= callers && a.groups[key.group].count() < share {
		return a.byGroup.above(share), refusedFull
	}
	if caller == nil {
		return nil, refusedCaller // then limit < callers, so there is another caller
	}
	ownGroups, own := caller.groups, a.callerGroups[key].count()
	if own == 0 {
		ownGroups++
	}
	switch part := caller.waiting / ownGroups; {
	case own < part:
		return caller.byGroup.above(part), refusedFull
	case ownGroups > 1 && own > 0:
		return nil, refusedGroup
	case callers > 1:
		return nil, refusedCaller
	default:
		return nil, refusedFull
	}
}

// leave ends the waiting of an intent that was admitted, if it was not displaced.
func (a *admission) leave(in *intent) {
	if _, ok := a.waiting[in]; !ok {
		return
	}
	delete(a.waiting, in)
	in.cannotBeDisplaced()
	slot := &in.slot
	for _, t := range slot.tallies {
		t.add(-1)
	}
	caller, group, own := slot.tallies[0], slot.tallies[1], slot.tallies[2]
	if own.waiting == 0 {
		caller.groups--
		delete(a.callerGroups, slot.key)
	}
	if caller.waiting == 0 {
		delete(a.callers, slot.key.caller)
	}
	if group.waiting == 0 {
		delete(a.groups, slot.key.group)
	}
}

// countWith returns how many keys there are after key is added.
func countWith[K comparable](counts map[K]*tally, key K) int {
	if counts[key] != nil {
		return len(counts)
	}
	return len(counts) + 1
}

// tallies is the number of tallies that count an intent: of its caller, of its group, and of the caller in
// the group.
const tallies = 3

// admissionSlot counts an intent among the waiting ones. The lock of the Intents guards it.
type admissionSlot struct {
	key     callerGroup
	tallies [tallies]*tally
	// index is the index in tally.sleeping, from 1 on, or 0.
	index [tallies]int
}

// tally counts intents.
type tally struct {
	waiting int
	// sleeping are the intents that can be displaced.
	sleeping []*intent
	// ranking has this tally, at the place rank, while it has sleeping intents.
	ranking *ranking
	rank    int
	// groups counts the groups of a caller, and byGroup has their tallies.
	groups  int
	byGroup ranking
}

// tallyOf returns the tally of the key, and makes it if needed.
func tallyOf[K comparable](all map[K]*tally, key K, by *ranking) *tally {
	t := all[key]
	if t == nil {
		t = &tally{ranking: by}
		all[key] = t
	}
	return t
}

// count returns how many intents wait. A nil tally has none.
func (t *tally) count() int {
	if t == nil {
		return 0
	}
	return t.waiting
}

func (t *tally) add(n int) {
	t.waiting += n
	if t.rank > 0 {
		t.ranking.Put(t)
	}
}

// canBeDisplaced lets a new intent displace this one.
func (in *intent) canBeDisplaced() {
	for i, t := range in.slot.tallies {
		t.sleeping = append(t.sleeping, in)
		if in.slot.index[i] = len(t.sleeping); in.slot.index[i] == 1 {
			t.ranking.Put(t)
		}
	}
}

// cannotBeDisplaced is the opposite of canBeDisplaced. It does nothing without that.
func (in *intent) cannotBeDisplaced() {
	for i, t := range in.slot.tallies {
		at := in.slot.index[i]
		if at == 0 {
			return
		}
		last := len(t.sleeping) - 1
		moved := t.sleeping[last]
		t.sleeping[at-1], moved.slot.index[i] = moved, at
		t.sleeping[last] = nil // lets the collector free the intent
		t.sleeping = t.sleeping[:last]
		if in.slot.index[i] = 0; last == 0 {
			t.ranking.Remove(t)
		}
	}
}

// ranking has tallies with sleeping intents. The tally with the most intents is first.
type ranking struct{ heap.Heap[*tally] }

// Before implements heap.Element.
func (t *tally) Before(other *tally) bool { return t.waiting > other.waiting }

// Place implements heap.Element.
func (t *tally) Place() *int { return &t.rank }

// above returns a sleeping intent of the tally with the most intents. It returns nil if that has no more
// than the share.
func (r ranking) above(share int) *intent {
	if len(r.Heap) == 0 || r.Heap[0].waiting <= share {
		return nil
	}
	first := r.Heap[0]
	return first.sleeping[len(first.sleeping)-1]
}

// A refusal is delayed by refusalDelay, and by up to refusalJitter more or less.
const (
	refusalDelay  = time.Second
	refusalJitter = time.Second / 4
)

// refuse blocks for about a second, and then returns the error for the client. So a client that sends its
// request again at once, without regard to Retry-After, sends about one a second. Meanwhile the request
// costs memory and a connection.
//
// It returns at once at Stop, or if a tenth of dispatch.max_intentions has delayed refusals. It returns
// ctx.Err() if the client left. It never blocks longer than the request would wait.
func (d *Dispatcher) refuse(ctx context.Context, req *queue.PopRequest, why refusal) error {
	d.Metrics.refused.WithLabelValues(string(why)).Inc()
	select {
	case d.delayedRefusals <- struct{}{}:
	default:
		return why.error()
	}
	defer func() { <-d.delayedRefusals }()
	jitter := time.Duration((2*rand.Float64() - 1) * float64(refusalJitter))
	timer := time.NewTimer(min(refusalDelay+jitter, req.Wait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.stopping:
	case <-ctx.Done():
		return ctx.Err()
	}
	return why.error()
}

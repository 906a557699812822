package dispatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/heap"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// A refused client gets a random Retry-After in whole seconds, from overloadRetry to overloadRetry + overloadJitter.
const (
	overloadRetry  = time.Second
	overloadJitter = 2 * time.Second
)

// refusal is the reason why an intent may not wait. It is a label of the metrics.
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
	refusedCaller: "this caller has used up its share of the waiting requests (dispatch.max_intentions); send the request again",
	refusedGroup:  "this consumer group has used up its part of the caller's waiting requests (dispatch.max_intentions); send the request again",
}

// error returns the error for the client.
func (r refusal) error() error {
	jitter := time.Duration(rand.IntN(int(overloadJitter/time.Second)+1)) * time.Second
	return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: overloadRetry + jitter, Message: refusalTexts[r]}
}

// groupName has the names that identify the consumer group of an intent. The group may not exist.
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

// admission decides which intents may wait. The lock of the Intents guards it. The cost of a method grows only with the logarithm
// of the number of waiting intents.
//
// Without shares, one caller could use the whole limit and keep all other callers out.
//
// While fewer intents than the limit wait, every intent may wait. So the only caller may use the whole limit. At the limit, a new
// intent can displace a waiting intent, whose wait then ends:
//
//  1. With n callers, the share of a caller is limit/n. A caller below its share displaces an intent of a caller above its
//     share.
//  2. If there are more callers than the limit, no caller is above its share. Then groups have shares too: with n groups, the
//     share of a group is limit/n. A group below its share displaces an intent of a group above its share. A caller can invent
//     groups, so groups have no shares if there are more groups than callers.
//  3. A caller that has reached its share, or is the only caller, divides its intents among its groups. A group below its part
//     displaces an intent of the same caller from a group above its part.
//
// The displaced intent is a sleeping intent (see intentState) of the caller or group with the most intents.
//
// Every other new intent is refused. If the client of a displaced intent repeats its request, the caller or group of the request
// has reached its share. So two intents do not displace each other in turn.
type admission struct {
	limit   int
	waiting map[*intent]struct{}
	// The maps have a tally for each caller, group and callerGroup with waiting intents.
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

// enter counts the intent as waiting, or returns why it may not wait. The caller must call leave later. If displaced is not nil,
// the caller must end the wait of displaced.
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
		return nil, refusedCaller // the caller has no waiting intent, so all waiting intents are of other callers
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

// leave stops counting an intent that was admitted. It does nothing if the intent was displaced.
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

// Three tallies count each intent: the tally of its caller, of its group, and of its callerGroup.
const tallies = 3

// admissionSlot has the tallies that count a waiting intent. The lock of the Intents guards it.
type admissionSlot struct {
	key     callerGroup
	tallies [tallies]*tally
	// index is the position in tally.sleeping plus 1, or 0 if the intent is not in tally.sleeping.
	index [tallies]int
}

// tally counts the waiting intents of a caller, a group or a callerGroup.
type tally struct {
	waiting int
	// sleeping are the intents that can be displaced.
	sleeping []*intent
	// ranking has this tally while the tally has sleeping intents. rank is the index in ranking plus 1.
	ranking *ranking
	rank    int
	// groups counts the groups of a caller, and byGroup has their tallies.
	groups  int
	byGroup ranking
}

// tallyOf returns the tally of the key. It creates a missing tally.
func tallyOf[K comparable](all map[K]*tally, key K, by *ranking) *tally {
	t := all[key]
	if t == nil {
		t = &tally{ranking: by}
		all[key] = t
	}
	return t
}

// count returns how many intents wait. A nil tally counts 0.
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

// canBeDisplaced allows a new intent to displace in.
func (in *intent) canBeDisplaced() {
	for i, t := range in.slot.tallies {
		t.sleeping = append(t.sleeping, in)
		if in.slot.index[i] = len(t.sleeping); in.slot.index[i] == 1 {
			t.ranking.Put(t)
		}
	}
}

// cannotBeDisplaced undoes canBeDisplaced. It does nothing if canBeDisplaced was not called.
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

// above returns a sleeping intent of the tally with the most intents. It returns nil if this tally is not above the share.
func (r ranking) above(share int) *intent {
	if len(r.Heap) == 0 || r.Heap[0].waiting <= share {
		return nil
	}
	first := r.Heap[0]
	return first.sleeping[len(first.sleeping)-1]
}

// The answer of a refusal is delayed by refusalDelay, plus or minus at most refusalJitter.
const (
	refusalDelay  = time.Second
	refusalJitter = time.Second / 4
)

// refuse blocks for about a second, and then returns the error for the client. So a client that ignores Retry-After and repeats
// its request at once sends about one request a second. While refuse blocks, the request uses memory and a connection.
//
// refuse returns at once after Stop, or if the number of delayed refusals is a tenth of dispatch.max_intentions. It returns
// ctx.Err() if the client left. It never blocks longer than req.Wait.
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

package totals

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Order is the order of a list of queues or groups. All orders but that by name begin with the largest.
type Order string

// The orders.
const (
	ByName        Order = "name"
	ByBacklog     Order = "backlog"     // unfinished messages
	ByPending     Order = "pending"     // pending messages, of a queue
	ByOldest      Order = "oldest"      // age of the oldest unfinished message
	ByFailures    Order = "failures"    // partitions whose first message has failed
	ByDeadLetters Order = "deadLetters" // dead letters
	ByPartitions  Order = "partitions"
	ByStored      Order = "stored"   // stored messages, of a queue
	ByConsumed    Order = "consumed" // time since the last consumption, of a group
	ByQueues      Order = "queues"   // queues, of a namespace or a task
)

// QueueOrders, GroupOrders and TagOrders are the orders of each list.
var (
	QueueOrders = []Order{ByName, ByBacklog, ByPending, ByOldest, ByFailures, ByDeadLetters, ByPartitions, ByStored}
	GroupOrders = []Order{ByName, ByBacklog, ByOldest, ByFailures, ByDeadLetters, ByPartitions, ByConsumed}
	TagOrders   = []Order{ByName, ByBacklog, ByPending, ByOldest, ByFailures, ByDeadLetters, ByPartitions, ByStored, ByQueues}
)

// Key is a place in a list: an element with this rank and name. Lists continue after it, also in a later snapshot.
type Key struct {
	Rank int64
	// Queue and Group are the names. Group is empty in a list of queues.
	Queue, Group string
}

// String returns a text that ParseKey reads: the rank, how many bytes the name of the queue has, and both names.
func (k Key) String() string {
	return fmt.Sprintf("%d_%d_%s%s", k.Rank, len(k.Queue), k.Queue, k.Group)
}

// ParseKey reads what String wrote. ok is false if it did not write it.
func ParseKey(text string) (key Key, ok bool) {
	rank, rest, _ := strings.Cut(text, "_")
	size, names, _ := strings.Cut(rest, "_")
	n, err := strconv.ParseInt(rank, 10, 64)
	length, badLength := strconv.Atoi(size)
	if err != nil || badLength != nil || length < 0 || length > len(names) {
		return Key{}, false
	}
	return Key{Rank: n, Queue: names[:length], Group: names[length:]}, true
}

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(other.Rank, k.Rank), cmp.Compare(k.Queue, other.Queue), cmp.Compare(k.Group, other.Group))
}

// ListQueues returns limit queues that match, after a key (nil: from the first one). next is nil on the last page.
func (s *Snapshot) ListQueues(match func(*Queue) bool, order Order, after *Key, limit int) (found []*Queue, next *Key) {
	return s.RankQueues(match, func(q *Queue) int64 { return q.Rank(order) }, after, limit)
}

// RankQueues is ListQueues in another order: the queue with the largest rank comes first.
func (s *Snapshot) RankQueues(match func(*Queue) bool, rank func(*Queue) int64, after *Key, limit int) (found []*Queue, next *Key) {
	return list(s.Queues, match, func(q *Queue) Key { return Key{rank(q), q.Name, ""} }, after, limit)
}

// RankGroups is RankQueues for groups.
func (s *Snapshot) RankGroups(match func(*Group) bool, rank func(*Group) int64, after *Key, limit int) (found []*Group, next *Key) {
	return list(s.Groups, match, func(g *Group) Key { return Key{rank(g), g.Queue, g.Name} }, after, limit)
}

// ListGroups is ListQueues for groups.
func (s *Snapshot) ListGroups(match func(*Group) bool, order Order, after *Key, limit int) (found []*Group, next *Key) {
	return s.RankGroups(match, func(g *Group) int64 { return g.Rank(order) }, after, limit)
}

func list[T any](all []T, match func(*T) bool, keyOf func(*T) Key, after *Key, limit int) (found []*T, next *Key) {
	type entry struct {
		key  Key
		item *T
	}
	var entries []entry
	for i := range all {
		if item := &all[i]; match(item) {
			if key := keyOf(item); after == nil || key.compare(*after) > 0 {
				entries = append(entries, entry{key, item})
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.key.compare(b.key) })
	if len(entries) > limit {
		entries = entries[:limit]
		next = &entries[limit-1].key
	}
	for _, e := range entries {
		found = append(found, e.item)
	}
	return found, next
}

// Rank is larger for a queue that comes earlier in an order.
func (q *Queue) Rank(order Order) int64 {
	switch order {
	case ByBacklog:
		return q.Backlog()
	case ByPending:
		return q.Messages.Pending
	case ByOldest:
		return older(q.Oldest)
	case ByFailures:
		return q.Failing
	case ByDeadLetters:
		return q.DeadLetters
	case ByPartitions:
		return q.Partitions
	case ByStored:
		return q.Messages.Total
	case ByName, ByConsumed, ByQueues:
	}
	return 0
}

// Rank is larger for a group that comes earlier in an order.
func (g *Group) Rank(order Order) int64 {
	switch order {
	case ByBacklog:
		return g.Lag
	case ByOldest:
		return older(g.Oldest)
	case ByFailures:
		return g.Failing
	case ByDeadLetters:
		return g.DeadLetters
	case ByPartitions:
		return g.Partitions
	case ByConsumed:
		if g.ConsumedAt.IsZero() {
			return math.MaxInt64 // never is the longest time
		}
		return older(g.ConsumedAt)
	case ByName, ByPending, ByStored, ByQueues:
	}
	return 0
}

// older is larger the earlier an instant is; 0 for the zero time.
func older(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return math.MaxInt64 - at.UnixMicro()
}

// Sum has the totals of several queues.
type Sum struct {
	Queues, Groups, Partitions int64
	Messages                   Counts
	DeadLetters, Failing       int64
	// Oldest is the earliest of the queues; zero: there is none.
	Oldest time.Time
	// Late says that a group of one of the queues is late.
	Late bool
}

// summing adds up queues.
type summing struct {
	Sum
	all QueueSums
}

func (s *summing) add(q *Queue) {
	s.all.add(&q.QueueSums)
	s.Late = s.Late || q.Late
	s.Queues, s.Groups, s.DeadLetters, s.Failing = s.Queues+1, s.Groups+q.Groups, s.DeadLetters+q.DeadLetters, s.Failing+q.Failing
}

func (s *summing) sum() Sum {
	s.Partitions, s.Messages, s.Oldest = s.all.Partitions, s.all.Messages, s.all.Oldest
	return s.Sum
}

// Sum adds up the queues that match.
func (s *Snapshot) Sum(match func(*Queue) bool) Sum {
	var all summing
	for i := range s.Queues {
		if q := &s.Queues[i]; match(q) {
			all.add(q)
		}
	}
	return all.sum()
}

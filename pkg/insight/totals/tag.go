package totals

import (
	"maps"
	"slices"
	"strings"
)

// Tag is a namespace or a task with the totals of its queues.
type Tag struct {
	Name string
	Sum
}

// Rank is larger for a tag that comes earlier in an order.
func (t *Tag) Rank(order Order) int64 {
	if order == ByQueues {
		return t.Queues
	}
	q := Queue{DeadLetters: t.DeadLetters, Failing: t.Failing, QueueSums: QueueSums{Partitions: t.Partitions, Messages: t.Messages, Oldest: t.Oldest}}
	return q.Rank(order)
}

// ListTags returns limit tags of queues, after a key (nil: from the first one). tagOf returns the tag of a queue. Queues whose tag is
// empty are left out. Of the tags, only those with a name that has the part are listed, in any case.
func (s *Snapshot) ListTags(tagOf func(*Queue) string, part string, order Order, after *Key, limit int) (found []*Tag, next *Key) {
	sums := map[string]*summing{}
	for i := range s.Queues {
		if q := &s.Queues[i]; tagOf(q) != "" {
			of(sums, tagOf(q)).add(q)
		}
	}
	var all []Tag
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, Tag{name, sums[name].sum()})
	}
	part = strings.ToLower(part)
	return list(all, func(t *Tag) bool { return strings.Contains(strings.ToLower(t.Name), part) },
		func(t *Tag) Key { return Key{t.Rank(order), t.Name, ""} }, after, limit)
}

package totals

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Snapshot has the totals of all queues and groups. It must not be changed.
type Snapshot struct {
	// At is the instant of the database at which the pass began. Everything that was committed before is counted.
	At time.Time
	// Took is how long the pass took.
	Took time.Duration
	// Queues are in the order of their names, and Groups in that of their queues and names.
	Queues []Queue
	Groups []Group

	// began is when the pass began, by the clock of this instance.
	began time.Time
}

// Counts counts messages by state, as the package doc of pkg/insight/stats defines the states.
type Counts struct{ Total, Pending, Processing, Dead int64 }

// Queue is a queue with its totals.
type Queue struct {
	ID                    queue.ID
	Name, Namespace, Task string
	CreatedAt             time.Time
	Paused                bool
	Groups                int64
	// DeadLetters counts the dead letters of all groups.
	DeadLetters int64
	// Failing counts the partitions whose first unfinished message has failed, once for each group.
	Failing int64
	// Late is set if a group of the queue is late.
	Late bool
	QueueSums
}

// QueueSums are sums over the partitions of a queue.
type QueueSums struct {
	Partitions int64
	// Messages counts each message once. Its Dead counts the messages that are dead letters of at least one group.
	Messages Counts
	// Oldest is when the oldest message was stored that some group is not done with; zero: there is none.
	Oldest time.Time
}

// Backlog is the number of messages that some group is not done with.
func (q *QueueSums) Backlog() int64 { return q.Messages.Pending + q.Messages.Processing }

func (q *QueueSums) add(more *QueueSums) {
	m, p := &q.Messages, &more.Messages
	m.Total, m.Pending, m.Processing, m.Dead = m.Total+p.Total, m.Pending+p.Pending, m.Processing+p.Processing, m.Dead+p.Dead
	q.Partitions += more.Partitions
	q.Oldest = earlier(q.Oldest, more.Oldest)
}

// Group is a group of one queue with its totals.
type Group struct {
	Queue, Name string
	QueuePaused bool
	Mode        queue.SubscriptionMode
	StartAt     time.Time
	CreatedAt   time.Time
	Paused      bool
	// Joining: cursors in older partitions are still being made.
	Joining bool
	// Late is set if OldestDue is older than problems.late_after, or than half of maxWaitTimeSeconds of the queue. It is not set
	// while the group or the queue is paused.
	Late bool
	GroupSums
}

// GroupSums are sums over the cursors of a group.
type GroupSums struct {
	// Partitions counts the partitions in which the group has a cursor.
	Partitions int64
	// Lagging counts the partitions with unfinished messages, and Lag these messages.
	Lagging, Lag int64
	// Due, Leased and Resting count partitions: with a message for the next pop, with a live lease, and with messages that wait for
	// an instant. In a failing partition the first message has failed.
	Due, Leased, Resting, Failing int64
	// Held counts the messages under live leases.
	Held        int64
	DeadLetters int64
	// Oldest is when the oldest unfinished message was stored; zero: there is none. OldestDue is Oldest of the partitions that are due
	// or leased. ConsumedAt is the last consumption; zero: never.
	Oldest, OldestDue, ConsumedAt time.Time
}

func (g *GroupSums) add(more *GroupSums) {
	g.Partitions += more.Partitions
	g.Lagging, g.Lag, g.Due, g.Leased = g.Lagging+more.Lagging, g.Lag+more.Lag, g.Due+more.Due, g.Leased+more.Leased
	g.Resting, g.Failing, g.Held, g.DeadLetters = g.Resting+more.Resting, g.Failing+more.Failing, g.Held+more.Held, g.DeadLetters+more.DeadLetters
	g.Oldest, g.OldestDue = earlier(g.Oldest, more.Oldest), earlier(g.OldestDue, more.OldestDue)
	if more.ConsumedAt.After(g.ConsumedAt) {
		g.ConsumedAt = more.ConsumedAt
	}
}

// earlier returns the earlier instant. The zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Age returns how old something was when the snapshot was counted. It is 0 for the zero time.
func (s *Snapshot) Age(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(0, s.At.Sub(at))
}

// Since returns how long ago the snapshot was counted, by the clock of this instance.
func (s *Snapshot) Since() time.Duration { return time.Since(s.began) }

// Queue returns a queue by name; nil: there is none.
func (s *Snapshot) Queue(name string) *Queue {
	i, found := slices.BinarySearchFunc(s.Queues, name, func(q Queue, name string) int { return cmp.Compare(q.Name, name) })
	if !found {
		return nil
	}
	return &s.Queues[i]
}

// GroupsOf returns the groups of a queue, by name.
func (s *Snapshot) GroupsOf(queueName string) []Group {
	first, _ := slices.BinarySearchFunc(s.Groups, queueName, func(g Group, name string) int { return cmp.Compare(g.Queue, name) })
	end := first
	for end < len(s.Groups) && s.Groups[end].Queue == queueName {
		end++
	}
	return s.Groups[first:end]
}

// GroupsFrom returns limit groups of a queue from a name on, or after it. next is the last of them if there are more.
func (s *Snapshot) GroupsFrom(queueName, name string, after bool, limit int) (groups []Group, next *string) {
	groups = s.GroupsOf(queueName)
	begin, found := slices.BinarySearchFunc(groups, name, func(g Group, name string) int { return cmp.Compare(g.Name, name) })
	if found && after {
		begin++
	}
	if groups = groups[begin:]; len(groups) > limit {
		groups = groups[:limit]
		next = &groups[limit-1].Name
	}
	return groups, next
}

// DeadLetters counts the dead letters of the groups that match.
func (s *Snapshot) DeadLetters(match func(*Group) bool) (n int64) {
	for i := range s.Groups {
		if g := &s.Groups[i]; match(g) {
			n += g.DeadLetters
		}
	}
	return n
}

// Group returns a group of a queue; nil: there is none.
func (s *Snapshot) Group(queueName, name string) *Group {
	groups := s.GroupsOf(queueName)
	i, found := slices.BinarySearchFunc(groups, name, func(g Group, name string) int { return cmp.Compare(g.Name, name) })
	if !found {
		return nil
	}
	return &groups[i]
}

// same reports whether two snapshots have the same numbers.
func same(a, b *Snapshot) bool {
	return slices.Equal(a.Queues, b.Queues) && slices.Equal(a.Groups, b.Groups)
}

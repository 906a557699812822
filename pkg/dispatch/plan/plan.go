package plan

import "time"

// Key is the target of an intent.
type Key struct {
	// Group is the row id of the consumer group, which belongs to one queue.
	Group int64
	// Partition is the row id of the named partition. 0: any partition of the group's queue.
	Partition int64
}

// any reports whether the intent takes any partition of the queue.
func (k Key) any() bool { return k.Partition == 0 }

// Intent is one waiting pop request.
type Intent struct {
	Key Key
	// Partitions is the most partitions that the intent may claim. A value below 1
	// counts as 1. An intent that names a partition ignores it.
	Partitions int
	// Deadline is the latest instant at which the intent is answered. From then on
	// the intent gets nothing.
	Deadline time.Time
}

// Candidate is one row of a preflight: a partition that has messages for the group.
// It is poppable if ReadyAt is not after now and no flag is set.
type Candidate struct {
	Group, Partition int64
	// ReadyAt is when the partition is due: the end of the delay, of the window or of the lease.
	ReadyAt time.Time
	// Depth is the number of messages that wait in the partition for the group.
	Depth int64
	// WindowOpen: the window buffer of the queue still collects messages. Delayed: the
	// first message is not visible yet.
	Leased, WindowOpen, Delayed, Paused bool
}

// Decision is the result for one intent.
type Decision struct {
	Outcome Outcome
	// Partitions are the partitions to claim, in the order in which they were given.
	// Nil unless Outcome is ViableAssigned.
	Partitions []int64
}

// Outcome is the result for an intent. Its text is a metric label and a log field.
type Outcome string

// The outcomes, ordered from the nearest to poppable to the farthest. An intent that gets nothing
// has the outcome of its nearest candidate. A candidate with several obstacles counts as the
// farthest of them. An expired intent has the outcome of an intent that was served too late.
const (
	ViableAssigned           Outcome = "viable_assigned"
	SkipPartitionUnavailable Outcome = "skip_partition_unavailable" // other intents got all poppable candidates
	SkipLeaseTaken           Outcome = "skip_lease_taken"
	SkipWindowBuffer         Outcome = "skip_window_buffer"
	SkipDelayed              Outcome = "skip_delayed"
	SkipPaused               Outcome = "skip_paused" // only a resume makes the partition poppable
	SkipNoPartitions         Outcome = "skip_no_partitions"
)

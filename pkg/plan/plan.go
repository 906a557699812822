package plan

import "time"

// Key says what an intent waits for.
type Key struct {
	// Group is the row id of the consumer group, which belongs to one queue.
	Group int64
	// Partition is the row id of the only partition wanted; 0: any partition of
	// the group's queue.
	Partition int64
}

// any reports whether every partition of the queue will do.
func (k Key) any() bool { return k.Partition == 0 }

// Intent is one waiting pop request.
type Intent struct {
	// ID tells the intents of a call apart.
	ID  int64
	Key Key
	// Partitions is how many partitions the intent may claim, at least 1; a
	// smaller value is read as 1. An intent that names its partition claims
	// that one, whatever stands here.
	Partitions int
	// Deadline is when the request is answered at the latest. From that instant
	// on the intent gets nothing.
	Deadline time.Time
	// Since is when the intent was registered.
	Since time.Time
}

// Candidate is one row of a preflight: a partition that has something in it for
// the group. It is poppable when ReadyAt is not after now and no flag is set.
type Candidate struct {
	Group, Partition int64
	// ReadyAt is when the partition is due, as far as that is a matter of time:
	// the end of the delay, of the window or of the lease.
	ReadyAt time.Time
	// Depth is how many messages wait in the partition for the group.
	Depth int64
	// Leased: somebody holds the partition for the group.
	Leased bool
	// WindowOpen: the window buffer of the queue still collects messages.
	WindowOpen bool
	// Delayed: the first message is not visible yet.
	Delayed bool
	// Paused: nothing is delivered until somebody resumes it.
	Paused bool
}

// Decision is the result for one intent.
type Decision struct {
	// Intent is the ID of the intent.
	Intent  int64
	Outcome Outcome
	// Partitions are the partitions to claim, in the order they were given; nil
	// unless Outcome is ViableAssigned.
	Partitions []int64
	// Next is the earliest instant after now at which something may become
	// poppable for the intent by the passing of time alone; zero: no such
	// instant is known. It is set with every outcome, as a claim may fail.
	Next time.Time
}

// Outcome says what became of an intent. Its text is the label of metrics and
// the field of logs.
type Outcome string

// The outcomes. An intent that gets nothing carries the reason of the candidate
// that is nearest to being poppable, in the order below; a candidate that
// several things hold back counts as the last of them. An expired intent gets
// the reason of one that was served too late.
const (
	// ViableAssigned: the intent has partitions to claim.
	ViableAssigned Outcome = "viable_assigned"
	// SkipPartitionUnavailable: there were poppable candidates, and others got
	// all of them.
	SkipPartitionUnavailable Outcome = "skip_partition_unavailable"
	// SkipLeaseTaken: a lease is in the way.
	SkipLeaseTaken Outcome = "skip_lease_taken"
	// SkipWindowBuffer: an open window buffer is in the way.
	SkipWindowBuffer Outcome = "skip_window_buffer"
	// SkipDelayed: the first message is due later.
	SkipDelayed Outcome = "skip_delayed"
	// SkipPaused: only a resume helps.
	SkipPaused Outcome = "skip_paused"
	// SkipNoPartitions: no candidate; there is nothing for this intent.
	SkipNoPartitions Outcome = "skip_no_partitions"
)

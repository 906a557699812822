package check

import (
	"fmt"
	"strings"
	"time"
)

// State has the contents of the tables at the end of the run, and the samples and records from the run.
type State struct {
	Partitions []Partition
	// Samples are readings of cursors during the run, in order of time. They are optional.
	Samples []Sample
	// LeasePeriods are the periods of leases by the clock of the database. They are optional.
	LeasePeriods []LeasePeriod
	// Moves are the creations of cursors, and the moves by seeks or backwards, in order for each cursor. They are
	// required for histories with seeks.
	Moves []Move
	// Erased are the messages of deleted queues. They have the name of the queue.
	Erased []Erased
	// Redelivered are the messages that leases delivered because of a redrive. Only sought groups need them.
	Redelivered []Redelivered
	// Sweeps are the counters of sweeps, one for each swept queue.
	Sweeps []Sweep
}

// Partition is a partition and its log.
type Partition struct {
	// Name is the name of a present partition, or the result of Former.
	Queue, Name string
	// ID distinguishes partitions with the same name. 0 means that there was only one.
	ID int64
	// Removed is set if the partition was removed.
	Removed *Removal
	// LastSeq is the position of the last message ever stored.
	LastSeq int64
	// Log is in the order of Seq.
	Log []Message
	// Deleted are the deleted messages.
	Deleted []Deletion
	// These are the retention options of the queue; 0 means that the option is off. Messages of age Retention are
	// deleted. Messages of age CompletedRetention are deleted if every group has passed them. Unread messages of age
	// ExpireAfter become dead letters. Messages of age MaxWait are deleted if some group has not passed them, or if
	// there is no group. A queue with MaxWait has no other option.
	Retention, CompletedRetention, ExpireAfter, MaxWait time.Duration
	// Cursors has one cursor for each consumer group that reads the partition.
	Cursors []Cursor
}

// Removal describes the removal of an empty partition.
type Removal struct {
	// Idle is the time since the last push according to the row of the partition.
	Idle time.Duration
	// Messages is the number of messages in the partition at its removal.
	Messages int64
}

// Former returns the unique name of a removed partition.
func Former(name string, id int64) string { return fmt.Sprintf("%s#%d", name, id) }

// clientName returns the name that clients use for a partition, present or removed.
func clientName(partition string) string {
	name, _, _ := strings.Cut(partition, "#")
	return name
}

// Message is a row of a log.
type Message struct {
	Seq           int64
	MessageID     string
	TransactionID string
	// CreatedAt is the time when the message was stored, by the clock of the database. Only seeks to a time need it.
	CreatedAt time.Time
}

// Deletion is a deleted message.
type Deletion struct {
	Message
	// How is Asked, Swept or Purged.
	How string
	// Age is the age of the message at its deletion.
	Age time.Duration
	// Unread means that some group had not passed the message, or that there is no group. Held means that a live
	// lease covered it.
	Unread, Held bool
}

// The reasons of a deletion.
const (
	Asked  = "asked"  // by name
	Swept  = "swept"  // by a sweep
	Purged = "purged" // with its queue
)

// Erased is a message of a deleted queue.
type Erased struct{ Queue, Partition, TransactionID string }

// Redelivered has the redriven messages that a lease delivered in one partition.
type Redelivered struct {
	Queue, Partition, Group, LeaseID string
	Seqs                             []int64
}

// Sweep has the counters of sweeps for one queue.
type Sweep struct {
	Queue string
	// Retention, Completed and Evicted count deleted messages by the option that deleted them. Unread counts the
	// deleted messages that some group had not passed. Expired counts messages that expired unread, once for each
	// group.
	Retention, Completed, Evicted, Unread, Expired int64
}

// Cursor is the position of a consumer group in a partition.
type Cursor struct {
	Group string
	// Missing means that the group reads the whole queue but has no cursor in the partition.
	Missing bool
	// FromStart means that the group began at the first message.
	FromStart bool
	// Committed is the seq up to which all messages are settled.
	Committed int64
	// Consumed is the number of settled messages.
	Consumed int64
	// Dead has the seqs of the dead letters of the group, ascending.
	Dead []int64
	// Redriven are the seqs that were redriven and are not settled yet.
	Redriven []int64
	// Expired are the messages of Dead that expired.
	Expired []Expiry
}

// Expiry is a message that expired for a group at some age.
type Expiry struct {
	Seq int64
	Age time.Duration
}

// Sample is the position of a cursor at a time during the run.
type Sample struct {
	// At is the time after the read, on the clock of the history.
	At                      time.Duration
	Queue, Partition, Group string
	// ID is the id of the partition.
	ID                 int64
	Committed, LastSeq int64
}

// LeasePeriod is the period of one lease by the clock of the database: from its claim until its release or its
// planned end.
type LeasePeriod struct {
	Queue, Partition, Group string
	LeaseID                 string
	From, Until             time.Time
	// Moves is the number of earlier moves of the group with this GroupID in the partition.
	Moves   int
	GroupID int64
}

// Move is the creation of a cursor, or a change that is not the progress of the group.
type Move struct {
	Queue, Partition, Group string
	// GroupID distinguishes groups with the same name.
	GroupID int64
	// How is Joined, Sought or Fell.
	How string
	// From and To are the values of committed before and after the move.
	From, To int64
	// Skip are the dead letters after To that the cursor still skips.
	Skip []int64
	// At is the time of the statement that moved the cursor, converted to the clock of the history. The commit is
	// later. Only the rules about waits use At.
	At time.Duration
}

// The kinds of moves of a cursor.
const (
	Joined = "joined" // the cursor was created
	Sought = "sought"
	Fell   = "fell" // the cursor moved back without a request
)

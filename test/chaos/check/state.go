package check

import (
	"fmt"
	"strings"
	"time"
)

// State is what the tables hold at the end of the run, and what was read from them during it.
type State struct {
	Partitions []Partition
	// Samples are readings of cursors during the run, in order. They are optional.
	Samples []Sample
	// LeasePeriods are the lives of leases by the database's clock. They are optional.
	LeasePeriods []LeasePeriod
	// Moves are the positions where cursors began and the moves by seeks or backwards, in the order of each cursor.
	// Histories with seeks need them.
	Moves []Move
	// Erased are the messages of deleted queues, by the name of the queue.
	Erased []Erased
	// Redelivered are the messages that leases delivered because they were redriven. Only sought groups need them.
	Redelivered []Redelivered
	// Sweeps are the counters of sweeps, one for each swept queue.
	Sweeps []Sweep
}

// Partition is a partition and its log.
type Partition struct {
	// Name is the name of a present partition, or the result of Former.
	Queue, Name string
	// ID distinguishes partitions of one name. 0: there was only one.
	ID int64
	// Removed is set if the partition was removed.
	Removed *Removal
	// LastSeq is the position of the last message ever stored.
	LastSeq int64
	// Log is in the order of Seq.
	Log []Message
	// Deleted are the deleted messages.
	Deleted []Deletion
	// The retention options of its queue. Messages of age Retention are deleted. Messages of age CompletedRetention are
	// deleted if every group has passed them. Unread messages of age ExpireAfter become dead letters. Messages of age
	// MaxWait are deleted if some group, or every group, has not read them. 0: the option is off. MaxWait comes alone.
	Retention, CompletedRetention, ExpireAfter, MaxWait time.Duration
	// Cursors has one cursor for each consumer group that reads the partition.
	Cursors []Cursor
}

// Removal describes the removal of an empty partition.
type Removal struct {
	// Idle is the time since the last push, by its row.
	Idle time.Duration
	// Messages counts the messages that it held.
	Messages int64
}

// Former returns the name of a partition that was removed.
func Former(name string, id int64) string { return fmt.Sprintf("%s#%d", name, id) }

// clientName returns the name by which clients knew a partition.
func clientName(partition string) string {
	name, _, _ := strings.Cut(partition, "#")
	return name
}

// Message is a row of a log.
type Message struct {
	Seq           int64
	MessageID     string
	TransactionID string
	// CreatedAt is when the message was stored, by the database's clock. Only seeks to an instant need it.
	CreatedAt time.Time
}

// Deletion is a deleted message.
type Deletion struct {
	Message
	// How is Asked, Swept or Purged.
	How string
	// Age is the age of the message at its deletion.
	Age time.Duration
	// Unread: some group had not passed it, or no group reads the partition. Held: a live lease covered it.
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

// Redelivered are the redriven messages of a lease in one partition.
type Redelivered struct {
	Queue, Partition, Group, LeaseID string
	Seqs                             []int64
}

// Sweep has the counters of sweeps for one queue.
type Sweep struct {
	Queue string
	// Retention, Completed and Evicted count deleted messages by the option that deleted them. Unread counts the
	// deleted messages that some group had not passed. Expired counts messages passed unread, once for each group.
	Retention, Completed, Evicted, Unread, Expired int64
}

// Cursor is the position of a consumer group in a partition.
type Cursor struct {
	Group string
	// Missing: the group reads the whole queue but has no cursor here.
	Missing bool
	// FromStart: the group began at the first message.
	FromStart bool
	// Committed is the seq up to which everything is settled.
	Committed int64
	// Consumed counts settled messages.
	Consumed int64
	// Dead are the seqs dead-lettered for the group, ascending.
	Dead []int64
	// Redriven are the seqs that were redriven and are not settled yet.
	Redriven []int64
	// Expired are the messages of Dead that waited too long.
	Expired []Expiry
}

// Expiry is a message that expired for a group at some age.
type Expiry struct {
	Seq int64
	Age time.Duration
}

// Sample is a cursor at some instant of the run.
type Sample struct {
	// At is when the reading ended, on the clock of the history.
	At                      time.Duration
	Queue, Partition, Group string
	// ID is the id of the partition.
	ID                 int64
	Committed, LastSeq int64
}

// LeasePeriod is the life of one lease by the database's clock: from its claim until it was released or would have
// expired.
type LeasePeriod struct {
	Queue, Partition, Group string
	LeaseID                 string
	From, Until             time.Time
	// Moves counts the earlier Moves of the group with this GroupID in the partition.
	Moves   int
	GroupID int64
}

// Move is a change of a cursor by something else than progress.
type Move struct {
	Queue, Partition, Group string
	// GroupID distinguishes groups of one name.
	GroupID int64
	// How is Joined, Sought or Fell.
	How string
	// From and To are committed before and after.
	From, To int64
	// Skip are the dead letters beyond To that are still passed over.
	Skip []int64
	// At is when the statement moved the cursor, before its commit, converted to the clock of the history. Only waits
	// are judged by it.
	At time.Duration
}

// The kinds of moves of a cursor.
const (
	Joined = "joined" // it was created
	Sought = "sought"
	Fell   = "fell" // without a request
)

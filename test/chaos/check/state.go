package check

import (
	"fmt"
	"strings"
	"time"
)

// State is what the tables hold when the run is over, and what was seen of them
// during it.
type State struct {
	Partitions []Partition
	// Samples are readings of cursors during the run, in the order they were
	// taken; none is fine.
	Samples []Sample
	// Tenures are the lives of leases by the database's clock; none is fine.
	Tenures []Tenure
	// Moves are where cursors began and where they were sought to or fell, in the
	// order in which that happened to each; none is fine, then what a seek did is
	// not judged.
	Moves []Move
	// Erased are the messages of queues that were deleted, by the name of the queue.
	Erased []Erased
	// Redelivered are the messages that leases delivered because they were put back.
	// Only groups that are sought need it.
	Redelivered []Redelivered
	// Sweeps are what sweeps count, one for each queue that they did something to.
	Sweeps []Sweep
}

// Partition is a partition and its log.
type Partition struct {
	// Name is that of one that is there; Former makes that of one that is not.
	Queue, Name string
	// ID tells those of one name apart; 0: there was only one.
	ID int64
	// Removed: it is not there any more.
	Removed *Removal
	// LastSeq is the position of the last message ever stored.
	LastSeq int64
	// Log is in the order of Seq.
	Log []Message
	// Deleted are the messages that were in it.
	Deleted []Deletion
	// What its queue wants gone: messages that are so old, those that every group
	// has passed, those that expire unread and are dead letters then, and those that
	// some group, or everybody, left unread for so long. 0: none. MaxWait comes alone.
	Retention, CompletedRetention, ExpireAfter, MaxWait time.Duration
	// Cursors has one for each consumer group that reads the partition.
	Cursors []Cursor
}

// Removal is how an empty partition was removed.
type Removal struct {
	// Idle is how long nothing had been pushed to it, by its row.
	Idle time.Duration
	// Messages is how many it held.
	Messages int64
}

// Former is the name of a partition that was removed.
func Former(name string, id int64) string { return fmt.Sprintf("%s#%d", name, id) }

// called is the name that clients knew a partition by.
func called(partition string) string {
	name, _, _ := strings.Cut(partition, "#")
	return name
}

// Message is a row of a log.
type Message struct {
	Seq           int64
	MessageID     string
	TransactionID string
	// CreatedAt is when it was stored, by the database's clock. Only a seek to an
	// instant needs it.
	CreatedAt time.Time
}

// Deletion is a message that was deleted.
type Deletion struct {
	Message
	// How it was: Asked, Swept or Purged.
	How string
	// Age is how long after it was stored.
	Age time.Duration
	// Unread: some group had not passed it, or none read the partition. Held: a lease
	// that was alive covered it.
	Unread, Held bool
}

// How a message may be deleted.
const (
	Asked  = "asked"  // by its name
	Swept  = "swept"  // by a sweep
	Purged = "purged" // with its queue
)

// Erased is a message of a queue that was deleted.
type Erased struct{ Queue, Partition, TransactionID string }

// Redelivered are messages of a lease in one partition.
type Redelivered struct {
	Queue, Partition, Group, LeaseID string
	Seqs                             []int64
}

// Sweep is what sweeps count of one queue.
type Sweep struct {
	Queue string
	// Retention, Completed and Evicted are messages deleted, by the rule. Unread are
	// those of them that some group had not passed, Expired those that were passed
	// unread, once for each group.
	Retention, Completed, Evicted, Unread, Expired int64
}

// Cursor is the place of a consumer group in a partition.
type Cursor struct {
	Group string
	// Missing: the group reads the whole queue and yet has no cursor here.
	Missing bool
	// FromStart: the group began at the first message.
	FromStart bool
	// Committed is the seq up to which everything is done.
	Committed int64
	// Consumed counts messages that were done.
	Consumed int64
	// Dead are the seqs that are dead-lettered for the group, ascending.
	Dead []int64
	// Redriven are the seqs that were put back and are not settled yet.
	Redriven []int64
	// Expired are those of Dead that are it because they waited too long.
	Expired []Expiry
}

// Expiry is a message that expired for a group at some age.
type Expiry struct {
	Seq int64
	Age time.Duration
}

// Sample is a cursor as it was at some instant of the run.
type Sample struct {
	// At is when the reading had been taken, on the clock of the history.
	At                      time.Duration
	Queue, Partition, Group string
	// ID is that of the partition.
	ID                 int64
	Committed, LastSeq int64
}

// Tenure is the life of one lease: from when it was given until it was released
// or would have expired, both by the database's clock.
type Tenure struct {
	Queue, Partition, Group string
	LeaseID                 string
	From, Until             time.Time
	// Moves is how many Moves of the group of this Incarnation in the partition came
	// before it.
	Moves       int
	Incarnation int64
}

// Move is a place that a cursor got otherwise than by going on.
type Move struct {
	Queue, Partition, Group string
	// Incarnation tells groups of one name apart.
	Incarnation int64
	// How it came: Joined, Sought or Fell.
	How string
	// From and To are committed before and after.
	From, To int64
	// Skip are the dead letters beyond To that are still passed over.
	Skip []int64
	// At is when the cursor was moved, though not yet for others to see, on the clock
	// of the history as far as the two clocks agree. Only waits are judged by it.
	At time.Duration
}

// How a cursor gets a place.
const (
	Joined = "joined" // it was made
	Sought = "sought"
	Fell   = "fell" // and nobody had asked for it
)

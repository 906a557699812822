package check

import "time"

// State is what the tables hold when the run is over, and what was seen of them
// during it.
type State struct {
	Partitions []Partition
	// Samples are readings of cursors during the run, in the order they were
	// taken; none is fine.
	Samples []Sample
	// Tenures are the lives of leases by the database's clock; none is fine.
	Tenures []Tenure
}

// Partition is a partition and its log.
type Partition struct {
	Queue, Name string
	// LastSeq is the position of the last message ever stored.
	LastSeq int64
	// Log is in the order of Seq.
	Log []Message
	// Cursors has one for each consumer group that reads the partition.
	Cursors []Cursor
}

// Message is a row of a log.
type Message struct {
	Seq           int64
	MessageID     string
	TransactionID string
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
}

// Sample is a cursor as it was at some instant of the run.
type Sample struct {
	// At is when the reading had been taken, on the clock of the history.
	At                      time.Duration
	Queue, Partition, Group string
	Committed, LastSeq      int64
}

// Tenure is the life of one lease: from when it was given until it was released
// or would have expired, both by the database's clock.
type Tenure struct {
	Queue, Partition, Group string
	LeaseID                 string
	From, Until             time.Time
}

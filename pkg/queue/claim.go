package queue

import "time"

// Epoch identifies one state of the database from which ids remain valid. A new epoch begins when Postgres restarts, when a
// standby is promoted, or when files are restored. It also begins when the tables are created again, restored or truncated. A
// cached id is valid only within its epoch.
type Epoch int64

// Partition is the cached description of a partition. Only Sealed and Bounded can
// change. A push notices the change.
type Partition struct {
	// Key is the id of the row in the database. It is valid within Epoch.
	Key   int64
	Epoch Epoch
	// ID is the id on the wire.
	ID       ID
	Name     string
	QueueKey int64
	Queue    string
	// Sealed: the queue encrypts payloads at rest.
	Sealed bool
	// Bounded: the queue has a maxSize.
	Bounded bool
}

// Target names what a pop claims from. Its ids are keys of the database and valid within Epoch. Partition 0 means any partition
// of the group's queue.
type Target struct {
	Group, Partition int64
	Epoch            Epoch
}

// Assignment is a claim to make for a waiting pop.
type Assignment struct {
	Request *PopRequest
	// Target names the partition to claim. If it names none, the claim takes up to Request.Partitions partitions.
	Target Target
}

// Handoff is a claim that a push makes for a waiting request, right after the
// commit of the push and in the same round trip.
type Handoff struct {
	Assignment
	// The push calls Take exactly once with the delivery, which may have no messages. Take does not block. If Take returns false,
	// the request no longer waits, and the caller must release the delivery.
	Take func(d Delivery) (taken bool)
}

// Room as the Partition of a Ready says that the limits of the group have room, because a lease has ended. A probe that the limits
// refused may then find messages. It does not say that a partition is poppable.
const Room int64 = -1

// Ready says that a partition is poppable for a group, now or later. Partition 0
// means any partition. See Room.
type Ready struct {
	Group, Partition int64
	// In is the time until the partition is poppable. 0 or less: it is poppable now.
	In time.Duration
	// At is the time when the partition becomes poppable, by the clock of the database. Zero: this time is unknown.
	At time.Time
}

// Probe asks a preflight for the candidates of a target.
type Probe struct {
	Target Target
	// Want is the maximum number of candidates.
	Want int
}

// Candidate is a partition in which a preflight found messages.
type Candidate struct {
	Partition int64
	// In is the time until the partition is poppable. 0 or less: it is poppable now.
	In    time.Duration
	Depth int64
	// If In is positive, Leased, WindowOpen and Paused say why the partition is not poppable yet.
	Leased, WindowOpen, Paused bool
}

// ProbeResult answers a Probe.
type ProbeResult struct {
	// Gone: the group no longer exists.
	Gone bool
	// Limited: the limits of the group allow no claim before LimitedIn has passed, except if a lease ends before.
	Limited   bool
	LimitedIn time.Duration
	// Candidates are at most Want partitions, those that have been due the longest. Additionally, Candidates has the partition
	// that becomes due next.
	Candidates []Candidate
}

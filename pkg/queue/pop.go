package queue

import (
	"encoding/json"
	"strings"
	"time"
)

// PopRequest is one pop request.
type PopRequest struct {
	// Queue is empty if Tags is set.
	Queue string
	// Partition restricts the pop to one partition. Nil means any partition.
	Partition *string
	// Tags, if not nil, selects several queues. The pop takes from the selected queue that is due first.
	Tags *Tags
	// Caller identifies the sender. Each caller has a share of dispatch.max_intentions. Requests with an empty Caller count as one
	// caller.
	Caller string
	// Group is the consumer group. It is DefaultGroup if the request named none.
	Group string
	// Batch is the maximum number of messages, and Partitions the maximum number of partitions. Both are at least 1.
	Batch, Partitions int
	// AutoAck acknowledges the messages at their delivery. These messages have no lease and are delivered at most once.
	AutoAck bool
	// RightsEnd is when the rights of the sender expire. A revocation can end them earlier. Zero: they do not expire.
	RightsEnd time.Time
	// Check returns an error if the rights of the sender have ended. Any goroutine may call it, and it does not block. Nil: the
	// rights never end.
	Check func() error
	// Memory limits the bytes of the delivered messages. Nil: no limit.
	Memory AnswerMemory
	// Subscription says where the group starts if the pop registers it.
	Subscription Subscription
	// Wait is how long to wait for a message. 0: the pop claims once and does not wait.
	Wait time.Duration
	// WaitingSince is when the request began to wait. For a group that is registered later, each message stored after WaitingSince
	// is new. Zero: the request has just arrived.
	WaitingSince time.Time
	// RefreshSince is when the server noticed that the group was deleted. If the
	// group is registered again, messages stored before RefreshSince are not new
	// to the group, unless the queue is new too. Zero: the group was not deleted.
	RefreshSince time.Time
}

// Valid returns an error if the rights of the sender have ended. The server must then deliver nothing to the sender.
func (r *PopRequest) Valid() error {
	if r.Check == nil {
		return nil
	}
	return r.Check()
}

// AnswerMemory is the memory for the messages of one pop. Any goroutine may call its methods.
type AnswerMemory interface {
	// TakeAnswer reserves memory for n bytes. It returns false if too little memory is left.
	TakeAnswer(n int) bool
	// ReturnAnswer returns the memory for n bytes that TakeAnswer reserved.
	ReturnAnswer(n int)
	// AnswerBytesLeft returns how many bytes the pop should deliver now. 0: the pop should be refused.
	AnswerBytesLeft() int64
}

// Tags match queues. An empty field matches every queue.
type Tags struct {
	Namespace, Task string
	// Allowed are the queues that the sender may consume.
	Allowed Patterns
}

// Patterns are patterns of names, separated by NUL characters. The SQL function belfry.matches says what a pattern matches.
// Patterns is a string, so that two values can be compared with ==. Empty: every name.
type Patterns string

// JoinPatterns returns the patterns of a list. The list must not be empty.
func JoinPatterns(list []string) Patterns { return Patterns(strings.Join(list, "\x00")) }

// List returns the patterns. Nil: every name.
func (p Patterns) List() []string {
	if p == "" {
		return nil
	}
	return strings.Split(string(p), "\x00")
}

// SubscriptionMode says where a new consumer group starts.
type SubscriptionMode string

// The subscription modes.
const (
	// SubscribeAll starts at the first message.
	SubscribeAll SubscriptionMode = "all"
	// SubscribeNew starts after the last message that was stored when the pop
	// that registers the group arrived.
	SubscribeNew SubscriptionMode = "new"
	// SubscribeFrom starts after the last message stored at or before From. From
	// may be in the future.
	SubscribeFrom SubscriptionMode = "timestamp"
)

// Subscription says where a consumer group starts.
type Subscription struct {
	Mode SubscriptionMode
	// From is set with SubscribeFrom.
	From time.Time
}

// Message is one delivered message.
type Message struct {
	Partition     *Partition
	Seq           int64
	ID            ID
	TransactionID string
	TraceID       ID
	Payload       json.RawMessage
	ProducerSub   string
	Headers       Headers
	CreatedAt     time.Time
	// Attempt tells how often the first message of the partition in this delivery was delivered, including this delivery. With
	// AutoAck, Attempt is 0.
	Attempt int
}

// AnswerSize returns about how many bytes the message has in the answer of a pop, without the names
// of its partition and group.
func (m *Message) AnswerSize() int {
	return 320 + len(m.Payload) + len(m.TransactionID) + len(m.ProducerSub) + len(m.Headers)
}

// Delivery is the answer to a pop. It has no messages if nothing was poppable.
type Delivery struct {
	Queue string
	Group string
	// LeaseID is the lease of every partition of the delivery. It is zero with
	// AutoAck.
	LeaseID  ID
	Messages []Message
	// Partitions is how many partitions were claimed.
	Partitions int

	// NextIn is the time until another partition is due, according to the claim: a leased partition, a partition with messages
	// left, or, if nothing was claimed, the next partition of the queue. HasNext is false if the claim saw no such partition.
	NextIn  time.Duration
	HasNext bool
	// Paused: nothing was delivered because the queue or the group is paused. At the end of the pause, the server sends a resync.
	Paused bool
	// Limited: the limits of the group allow no further message before LimitedIn has passed, except if a lease ends before. The
	// delivery may have messages.
	Limited   bool
	LimitedIn time.Duration
	// Contested: a partition was due, but another transaction held its cursor, or the partition was not poppable after all. If the
	// delivery has no messages, the queue may still have messages.
	Contested bool
	// Undeliverable is a CodeUndeliverable error if a payload of the claim could not be decrypted. The claim was released, so
	// Contested is set too.
	Undeliverable error
	// Lost is set if a push claimed messages for this pop with AutoAck, and the messages cannot be delivered. The messages may
	// already count as consumed. The pop must return this error.
	Lost error
	// Gone: the consumer group was deleted after the pop resolved it.
	Gone bool
	// Displaced: the wait ended early, because another request was admitted instead. The delivery has no messages.
	Displaced bool
	// Target is what a pop by name claimed from. Target is zero if the named queue, partition or group does not exist, or was
	// deleted after the pop resolved it. For a pop by tags, Target is the source of the messages.
	Target Target
	// Watched are the ids of the groups in which a pop by tags searched.
	Watched []int64
	// DatabaseNow is the time of the claim by the clock of the database. ReceivedAt is the time when the rows arrived, by the
	// local clock. A latency is always the difference of two times of the same clock.
	DatabaseNow time.Time
	ReceivedAt  time.Time
}

// NoteDueIn records that a partition is due after in. The delivery keeps the shortest time.
func (d *Delivery) NoteDueIn(in time.Duration) {
	if !d.HasNext || in < d.NextIn {
		d.HasNext, d.NextIn = true, in
	}
}

// SQLWaiter is a SQL session that waits in belfry.await for a message.
type SQLWaiter struct {
	Queue, Group string
	// Partition restricts the wait to one partition. Nil means any partition.
	Partition *string
	// Channel is the NOTIFY channel that wakes the session. Sessions that wait for
	// the same queue, group and partition share one channel.
	Channel string
}

// AwaitAgainChannel is the NOTIFY channel that asks all SQL waiters to call
// belfry.await again, because an instance may have missed their first call.
const AwaitAgainChannel = "belfry_again"

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
	// Tags, if not nil, pops from the matching queue that is due first.
	Tags *Tags
	// Caller names who sent the request, for the shares of dispatch.max_intentions. Requests with an
	// empty name have the same caller.
	Caller string
	// Group is the consumer group. It is DefaultGroup if the request named none.
	Group string
	// Batch is the most messages, Partitions the most partitions. Both are at
	// least 1.
	Batch, Partitions int
	// AutoAck consumes the messages on delivery: without a lease, at most once.
	AutoAck bool
	// RightsEnd is when the rights of the sender end, if nothing ends them earlier; zero: they do not.
	RightsEnd time.Time
	// Check returns an error if the rights of the sender have ended. Any goroutine may call it, and it does
	// not block. Nil: they do not end.
	Check func() error
	// Memory bounds the messages that are delivered. Nil does not.
	Memory AnswerMemory
	// Subscription says where the group starts if the pop registers it.
	Subscription Subscription
	// Wait is how long to wait for a message. 0: look once.
	Wait time.Duration
	// WaitingSince is when the request began to wait. For a group that is
	// registered later, each message stored after that instant is new. Zero: the
	// request has just arrived.
	WaitingSince time.Time
	// RefreshSince is when the server noticed that the group was deleted. If the
	// group is registered again, messages stored before that instant are not new
	// to it, unless the queue is new as well. Zero: the group was not deleted.
	RefreshSince time.Time
}

// Valid returns an error if the rights of the sender have ended: nothing may be delivered to it.
func (r *PopRequest) Valid() error {
	if r.Check == nil {
		return nil
	}
	return r.Check()
}

// AnswerMemory is the memory for the messages of one pop. Its methods may be called by any goroutine.
type AnswerMemory interface {
	// TakeAnswer reserves the memory for n bytes, and returns false if it is not left.
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

// Patterns are patterns of names, as in the SQL function belfry.matches, divided by NUL. So requests with
// the same patterns are equal. Empty: every name.
type Patterns string

// JoinPatterns returns the patterns of a list. It must have an element.
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
	CreatedAt     time.Time
	// Attempt counts the deliveries of the first message of the partition,
	// including this one. It is 0 with AutoAck.
	Attempt int
}

// AnswerSize returns about how many bytes the message has in the answer of a pop, without the names
// of its partition and group.
func (m *Message) AnswerSize() int {
	return 320 + len(m.Payload) + len(m.TransactionID) + len(m.ProducerSub)
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

	// NextIn is how long until the next partition that the claim saw is due: a
	// leased one, one with messages left, or, if nothing was claimed, the next one
	// of the queue. HasNext is false if the claim saw none.
	NextIn  time.Duration
	HasNext bool
	// Paused: nothing was delivered because the queue or the group is paused. A resync follows the resume.
	Paused bool
	// Contested: a partition was due, but a rival holds it or it turned out not to
	// be poppable. If there are no messages, other messages may still exist.
	Contested bool
	// Undeliverable is set if a payload of the claim could not be decrypted: a
	// CodeUndeliverable error. The claim was given back, so Contested is set too.
	Undeliverable error
	// Lost is set if a push claimed for this pop with AutoAck and its messages cannot
	// be delivered: they may be consumed. The pop must fail with it.
	Lost error
	// Gone: the consumer group was deleted after the pop resolved it.
	Gone bool
	// Displaced: the wait ended early, because another request was admitted instead. There are no messages.
	Displaced bool
	// Target is what a pop by name looked at. It is zero if the target does not
	// exist, and also if the target was deleted after the pop resolved it. For a
	// pop by tags it is where the messages are from.
	Target Target
	// Watched are the groups that a pop by tags looked at.
	Watched []int64
	// DatabaseNow is the clock of the database at the claim. ReceivedAt is the
	// local clock when the rows arrived. Each latency is measured by one clock.
	DatabaseNow time.Time
	ReceivedAt  time.Time
}

// NoteDueIn records that a partition is due after in. The delivery keeps the
// earliest.
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

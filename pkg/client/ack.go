package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// AckStatus says how a consumer is done with a message.
type AckStatus string

// The statuses of an acknowledgment.
const (
	// Completed moves the cursor of the group to the message. All earlier messages of the partition count as done too.
	Completed AckStatus = "completed"
	// Failed ends the lease. The message is delivered again, and after the retryLimit of the queue it is a dead letter.
	Failed AckStatus = "failed"
	// Retry is like Failed, but is not counted, and without RetryAfter the message is delivered again at once.
	Retry AckStatus = "retry"
	// DeadLettered makes the message a dead letter.
	DeadLettered AckStatus = "dlq"
)

// Ack is an acknowledgment. Message.Ack makes one.
type Ack struct {
	TransactionID string    `json:"transactionId"`
	PartitionID   string    `json:"partitionId"`
	Status        AckStatus `json:"status,omitempty"` // "" is Completed
	// LeaseID is the lease under which the message was delivered. If it has ended, the acknowledgment is refused. ""
	// is not checked.
	LeaseID string `json:"leaseId,omitempty"`
	// Error is kept with a dead letter.
	Error string `json:"error,omitempty"`
	// RetryAfter, with Failed or Retry, is the time until the message is delivered again. 0 leaves it to the server: for Failed
	// the retryDelay of the queue, for Retry none.
	RetryAfter time.Duration `json:"-"`
	// Group is the consumer group. "" is the reader without a group.
	Group string `json:"-"`
}

// Ack returns an acknowledgment of the message. reason may be nil.
func (m *Message[T]) Ack(status AckStatus, reason error) Ack {
	ack := Ack{TransactionID: m.TransactionID, PartitionID: m.PartitionID, Status: status, LeaseID: m.LeaseID, Group: m.Group}
	if reason != nil {
		ack.Error = reason.Error()
	}
	return ack
}

// AckResult is what became of an acknowledgment.
type AckResult struct {
	TransactionID string `json:"transactionId"`
	// Success is false if the acknowledgment was refused. Then Error says why.
	Success bool   `json:"success"`
	Error   string `json:"error"`
	// LeaseReleased means that the group holds no lease on the partition any more.
	LeaseReleased bool `json:"leaseReleased"`
	// DeadLetter means that the message became a dead letter.
	DeadLetter bool `json:"dlq"`
}

// Ack acknowledges messages of one group in one transaction, and returns what became of each, in their order. A refused
// acknowledgment is no error: see AckResult. In each partition the cursor stops before the first failed message. The server takes
// 50,000 acknowledgments, unless it is configured otherwise.
//
// A repetition after a lost answer may be refused although the first attempt was applied.
func (c *Client) Ack(ctx context.Context, acks ...Ack) ([]AckResult, error) {
	if len(acks) == 0 {
		return nil, nil
	}
	group := acks[0].Group
	for _, ack := range acks {
		if ack.Group != group {
			return nil, fmt.Errorf("acknowledgments of the groups %q and %q cannot be in one call", group, ack.Group)
		}
	}
	made := call{method: http.MethodPost, target: "/api/v1/ack/batch", body: ackBody(group, acks), repeatable: true}
	var results []AckResult
	if err := c.exchange(ctx, made, &results); err != nil {
		return nil, err
	}
	if len(results) != len(acks) {
		return nil, fmt.Errorf("%d acknowledgments were answered with %d", len(acks), len(results))
	}
	return results, nil
}

// ackBody encodes acknowledgments. Consumers send many, so it does without reflection.
func ackBody(group string, acks []Ack) []byte {
	const sizeOfAck = 200
	b := append(make([]byte, 0, sizeOfAck*(1+len(acks))), '{')
	member := func(prefix, value string) {
		if value != "" {
			// It fails only for invalid UTF-8, and then quotes the text with replacements.
			b, _ = jsontext.AppendQuote(append(b, prefix...), value)
		}
	}
	if group != "" {
		member(`"consumerGroup":`, group)
		b = append(b, ',')
	}
	b = append(b, `"acknowledgments":[`...)
	for i, ack := range acks {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(append(b, `{"transactionId":`...), ack.TransactionID)
		b, _ = jsontext.AppendQuote(append(b, `,"partitionId":`...), ack.PartitionID)
		member(`,"leaseId":`, ack.LeaseID)
		member(`,"status":`, string(ack.Status))
		member(`,"error":`, ack.Error)
		if ack.RetryAfter != 0 {
			b = strconv.AppendFloat(append(b, `,"retryAfter":`...), ack.RetryAfter.Seconds(), 'f', -1, 64)
		}
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// Extend makes a lease last at least for a duration from now, in whole seconds, from 1 second to a week. It returns the end of the
// lease by the clock of the server. An extension never shortens a lease. If the lease has ended, the error is
// ErrLeaseLost: stop working on its messages, because they are delivered again.
func (c *Client) Extend(ctx context.Context, leaseID string, by time.Duration) (time.Time, error) {
	made, err := newCall(Request{
		Method: http.MethodPost, Path: "/api/v1/lease/" + url.PathEscape(leaseID) + "/extend",
		Body: map[string]any{"seconds": int(math.Ceil(by.Seconds()))},
	})
	if err != nil {
		return time.Time{}, err
	}
	made.repeatable = true
	var extended struct {
		ExpiresAt time.Time `json:"expiresAt"`
	}
	err = c.exchange(ctx, made, &extended)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	return extended.ExpiresAt, err
}

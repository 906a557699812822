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

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Ack is an acknowledgment. Message.Ack returns the acknowledgment of a message.
type Ack = api.Ack

// AckResult is the result of an acknowledgment.
type AckResult = api.AckResult

// AckStatus is the outcome of a message that a consumer reports.
type AckStatus = api.AckStatus

// The statuses of an acknowledgment.
const (
	Completed    = api.Completed
	Failed       = api.Failed
	Retry        = api.Retry
	DeadLettered = api.DeadLettered
)

// Ack acknowledges messages of one group in one transaction. It returns one result for each acknowledgment, in the same order:
//
//	results, err := c.Ack(ctx, message.Ack(client.Completed, nil))
//
// If the server refuses an acknowledgment, Ack returns no error; see AckResult. In each partition the cursor stops before the
// first failed message. By default, the server accepts at most 50,000 acknowledgments in a call.
//
// If an answer is lost, Ack repeats the request. The server may refuse the repetition although it applied the first attempt.
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
		return nil, fmt.Errorf("the answer to %d acknowledgments has %d results", len(acks), len(results))
	}
	return results, nil
}

// ackBody encodes an api.AckBatch. It uses no reflection, because consumers send many acknowledgments.
func ackBody(group string, acks []Ack) []byte {
	const sizeOfAck = 200
	b := append(make([]byte, 0, sizeOfAck*(1+len(acks))), '{')
	member := func(prefix, value string) {
		if value != "" {
			// AppendQuote fails only for invalid UTF-8. Then it replaces the invalid bytes and appends the text.
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
		if ack.RetryAfterSeconds != 0 {
			b = strconv.AppendFloat(append(b, `,"retryAfter":`...), ack.RetryAfterSeconds, 'f', -1, 64)
		}
		if ack.PauseGroupSeconds != 0 {
			b = strconv.AppendFloat(append(b, `,"pauseGroup":`...), ack.PauseGroupSeconds, 'f', -1, 64)
		}
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// Extend makes a lease last at least for a duration from now. It rounds the duration up to seconds. The server accepts 1 second to
// a week:
//
//	ends, err := c.Extend(ctx, message.LeaseID, time.Minute)
//
// It returns the end of the lease by the clock of the server. An extension never shortens a lease. If the lease has ended, the
// error is ErrLeaseLost. Then the server delivers the messages of the lease again: stop working on them.
func (c *Client) Extend(ctx context.Context, leaseID string, by time.Duration) (time.Time, error) {
	made, err := newCall(Request{
		Method: http.MethodPost, Path: "/api/v1/lease/" + url.PathEscape(leaseID) + "/extend",
		Body: api.Extend{Seconds: int(math.Ceil(by.Seconds()))},
	})
	if err != nil {
		return time.Time{}, err
	}
	made.repeatable = true
	var extended api.Extended
	err = c.exchange(ctx, made, &extended)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	if err != nil || extended.ExpiresAt == nil {
		return time.Time{}, err
	}
	return *extended.ExpiresAt, nil
}

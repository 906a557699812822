package claim

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// undeliverableRetry is the time until the next claim of a partition whose next message cannot be
// decrypted or read.
const undeliverableRetry = time.Minute

// maxUndecryptedClaims is the maximum number of claims that a pop makes if payloads cannot be
// decrypted.
const maxUndecryptedClaims = 32

// decrypt decrypts the encrypted payloads of a claim. If a payload cannot be decrypted, it sets
// undecrypted and delivery.Undeliverable.
func (c *Claimer) decrypt(call *claimCall, named map[int64]*queue.Partition) {
	for _, i := range call.encrypted {
		m, p := &call.delivery.Messages[i], named[call.partitionOf[i]]
		if p == nil || slices.Contains(call.undecrypted, p) {
			continue
		}
		var err error
		m.Payload, err = c.Sealer.Open(m.Payload, seal.Message{Queue: p.Queue, Partition: p.Name, ID: m.ID})
		if err == nil {
			continue
		}
		call.undecrypted = append(call.undecrypted, p)
		if call.delivery.Undeliverable == nil {
			call.delivery.Undeliverable = undecryptedError(m, p, err)
		}
		if before := i - slices.Index(call.partitionOf, call.partitionOf[i]); before > 0 {
			call.decryptedBefore, call.undecryptedPartition = before, call.partitionOf[i]
			return // the next claim of the partition takes only the messages before this one
		}
		c.Log.Error("a message cannot be decrypted; the group does not receive its partition until the retry",
			zap.String("queue", p.Queue), zap.String("group", call.req.Group), zap.String("partition", p.Name),
			zap.Stringer("message_id", m.ID), zap.String("transaction_id", m.TransactionID),
			zap.Duration("retry_in", undeliverableRetry), zap.Error(err))
	}
}

// undecryptedError returns the error for a message that cannot be decrypted.
func undecryptedError(m *queue.Message, p *queue.Partition, reason error) error {
	return &queue.Error{
		Code: queue.CodeUndeliverable, Err: decryptError{reason},
		Message: fmt.Sprintf("message %s (queue %q, partition %q, transaction id %q) cannot be decrypted: %v; "+
			"add its key to encryption.keys, or make it a dead letter: POST /api/v1/messages/%s/%s/dlq",
			m.ID, p.Queue, p.Name, m.TransactionID, reason, p.ID, url.PathEscape(m.TransactionID)),
	}
}

// decryptError is the cause of an undecryptedError.
type decryptError struct{ error }

func (e decryptError) Unwrap() error { return e.error }

// giveBackUndecrypted undoes a claim with payloads that cannot be decrypted. Their partitions are due
// again after undeliverableRetry, so that pops of the group deliver other partitions meanwhile. If
// messages before such a payload can be delivered, the partitions are due at once.
func (c *Claimer) giveBackUndecrypted(ctx context.Context, call *claimCall) {
	d := &call.delivery
	if call.decryptedBefore > 0 {
		call.undecrypted = nil
	}
	c.Metrics.undecrypted.Inc()
	if err := c.giveBack(ctx, call); err != nil {
		c.Log.Warn("a claim with payloads that cannot be decrypted was not undone", zap.String("queue", d.Queue), zap.Error(err))
	}
	d.Messages, d.Contested = nil, true
}

// pop claims messages once. If a payload cannot be decrypted, pop claims again. It returns the first error if no
// later claim has messages.
func (c *Claimer) pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	var first error
	for range maxUndecryptedClaims {
		delivery, err := c.popOnce(ctx, req)
		switch {
		case errors.As(err, new(decryptError)):
			if first == nil {
				first = err
			}
		case first != nil && err == nil && len(delivery.Messages) == 0:
			return delivery, first
		default:
			return delivery, err
		}
	}
	return queue.Delivery{Queue: req.Queue, Group: req.Group}, first
}

var sqlPostpone = sql.Query("engine/store/postpone")

const (
	// maxSeparateClaims is the maximum number of due partitions that a pop claims one at a time.
	maxSeparateClaims = 32
	// separateLimit bounds the query that finds these partitions.
	separateLimit = 2 * time.Second
)

// explainUnreadable gives an error of claims the code CodeUndeliverable if Postgres cannot read a row.
// Without this code, SQLSTATE class 22 would look like an error of the client, although a claim sends no
// value of a client. Class 58 would look like an error of every claim. If a whole disk fails, each
// partition is tried once in undeliverableRetry.
func explainUnreadable(err error) error {
	if !postgres.Unreadable(err) {
		return err
	}
	return &queue.Error{Code: queue.CodeUndeliverable, Message: "Postgres cannot read a message", Err: err}
}

// postpone makes the partition of a failed claim due after undeliverableRetry, so that pops of its
// group deliver other partitions meanwhile. It returns reason with the name of the partition. If the
// statement fails, postpone logs the error. Then the next claim of the partition fails too, and
// postpones it.
func (c *Claimer) postpone(ctx context.Context, call *claimCall, reason error) error {
	c.Metrics.unreadable.Inc()
	group, partition := call.target.Group, call.target.Partition
	name := fmt.Sprint("with the number ", partition)
	if named, err := c.Names.ByKeys(ctx, call.target.Epoch, []int64{partition}); err == nil && named[partition] != nil {
		name = fmt.Sprintf("%q", named[partition].Name)
	}
	fields := []zap.Field{
		zap.String("queue", call.req.Queue), zap.String("group", call.req.Group), zap.Int64("partition", partition),
		zap.String("partition_name", name), zap.Duration("retry_in", undeliverableRetry),
	}
	c.Log.Error("Postgres cannot read a message; the group does not receive its partition until the retry", append(fields, zap.Error(reason))...)
	ready, _, err := wake.ReadReady(c.Pool.Query(ctx, sqlPostpone, group, partition, int64(undeliverableRetry/time.Second)))
	if err != nil {
		c.Log.Warn("a partition with an unreadable message was not postponed", append(fields, zap.Error(err))...)
	}
	c.Waker.Announce(ready)
	return &queue.Error{
		Code: queue.CodeUndeliverable, Err: reason,
		Message: fmt.Sprintf("Postgres cannot read a message of queue %q, partition %s (SQLSTATE %s): restore the row or delete the message",
			call.req.Queue, name, postgres.SQLState(reason)),
	}
}

// separately claims the due partitions of a group one at a time, after a claim failed with reason. It
// returns the first claim with messages, or reason if no claim has messages. It postpones partitions with
// messages that Postgres cannot read.
func (c *Claimer) separately(ctx context.Context, req *queue.PopRequest, target queue.Target, reason error) (*claimCall, error) {
	found, err := c.Preflight(ctx, []queue.Probe{{Target: target, Want: maxSeparateClaims}}, separateLimit)
	if err != nil {
		return nil, fmt.Errorf("looking for the unreadable partition: %w", err)
	}
	for _, candidate := range found[0].Candidates {
		if candidate.In > 0 {
			continue
		}
		single := target
		single.Partition = candidate.Partition
		call, err := c.together(ctx, req, single)
		switch {
		case postgres.Unreadable(err):
			reason = err // the error of together names the partition
		case err != nil:
			return nil, err
		case len(call.delivery.Messages) > 0:
			return call, nil
		}
	}
	return nil, reason
}

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
	"github.com/belfry-mq/belfry/pkg/queue"
)

// undeliverableRetry is when a partition is claimed again that holds a message which cannot be opened
// or read.
const undeliverableRetry = time.Minute

// maxUnopenedClaims is how many claims that cannot be opened a pop passes over.
const maxUnopenedClaims = 32

// open opens the encrypted payloads of a claim. If some cannot be opened, it sets unopened and
// delivery.Unopened.
func (c *Claimer) open(one *call, named map[int64]*queue.Partition) {
	for _, i := range one.encrypted {
		m, p := &one.delivery.Messages[i], named[one.partitionOf[i]]
		if p == nil || slices.Contains(one.unopened, p) {
			continue
		}
		var err error
		m.Payload, err = c.Sealer.Open(m.Payload, seal.Message{Queue: p.Queue, Partition: p.Name, ID: m.ID})
		if err == nil {
			continue
		}
		one.unopened = append(one.unopened, p)
		if one.delivery.Unopened == nil {
			one.delivery.Unopened = unopenedError(m, p, err)
		}
		if before := i - slices.Index(one.partitionOf, one.partitionOf[i]); before > 0 {
			one.openedBefore, one.unopenedPartition = before, one.partitionOf[i]
			return // the partition is claimed again for the messages before it
		}
		c.Log.Error("a message cannot be decrypted; the group does not receive its partition until the retry",
			zap.String("queue", p.Queue), zap.String("group", one.req.Group), zap.String("partition", p.Name),
			zap.Stringer("message_id", m.ID), zap.String("transaction_id", m.TransactionID),
			zap.Duration("retry_in", undeliverableRetry), zap.Error(err))
	}
}

// unopenedError says which message cannot be opened, and what to do.
func unopenedError(m *queue.Message, p *queue.Partition, reason error) error {
	return &queue.Error{
		Code: queue.CodeUndeliverable, Err: unopened{reason},
		Message: fmt.Sprintf("message %s (queue %q, partition %q, transaction id %q) cannot be opened: %v; "+
			"add its key to encryption.keys, or move it to the dead letters: POST /api/v1/messages/%s/%s/dlq",
			m.ID, p.Queue, p.Name, m.TransactionID, reason, p.ID, url.PathEscape(m.TransactionID)),
	}
}

// unopened is the cause of an unopenedError.
type unopened struct{ error }

func (e unopened) Unwrap() error { return e.error }

// giveBackUnopened gives back a claim with payloads that cannot be opened. Their partitions are due
// again after undeliverableRetry, so that pops of the group deliver the other partitions. If messages
// before such a payload can be delivered, the partitions are due at once.
func (c *Claimer) giveBackUnopened(ctx context.Context, one *call) {
	d := &one.delivery
	if one.openedBefore > 0 {
		one.unopened = nil
	}
	c.Metrics.unopened.Inc()
	if err := c.giveBack(ctx, one); err != nil {
		c.Log.Warn("messages that could not be decrypted were not given back", zap.String("queue", d.Queue), zap.Error(err))
	}
	d.Messages, d.Contested = nil, true
}

// pop pops once. It passes over claims with payloads that cannot be opened. The error of the first one
// is the answer if nothing else is found.
func (c *Claimer) pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	var first error
	for range maxUnopenedClaims {
		delivery, err := c.popOnce(ctx, req)
		switch {
		case errors.As(err, new(unopened)):
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

package client

import (
	"context"
	"errors"
	"time"
)

// ackInterval is how long a finished message waits for its acknowledgment while later messages of its pop are handled.
const ackInterval = time.Second

// delivery is the state of the messages of one pop. It belongs to one worker.
type delivery struct {
	*consumer
	lease *lease
	// ended has the partitions whose other messages are not handled, because they are delivered again.
	ended map[string]bool
	// finished are acknowledgments that are not sent yet. sent is the last submission, or nil.
	finished []ackItem
	sent     *submission
	sentAt   time.Time
	// refused means that a submission before sent was refused.
	refused bool
}

// deliver handles the messages of a pop and acknowledges them. When ctx ends or the lease is lost, it releases the rest.
func (w *consumer) deliver(ctx context.Context, messages []*Raw) {
	d := &delivery{consumer: w, ended: map[string]bool{}, sentAt: time.Now(), lease: w.hold(messages[0].LeaseID)}
	defer d.lease.release()
	d.finished = make([]ackItem, 0, len(messages))
	defer d.submit() // also after a panic in the loop body of Messages
	for i, message := range messages {
		switch {
		case d.ended[message.PartitionID]:
		case ctx.Err() != nil || d.lost():
			d.release(message)
		default:
			d.handleMessage(message, messages[i+1:])
			if time.Since(d.sentAt) > ackInterval || len(d.finished) >= maxAcks {
				d.submit()
			}
		}
	}
}

// handleMessage handles a message. rest are the messages after it.
func (d *delivery) handleMessage(message *Raw, rest []*Raw) {
	ctx := d.lease.ctx
	if message.TraceID != "" {
		ctx = WithTraceID(ctx, message.TraceID)
	}
	err := d.handle(ctx, message)
	status, pause := d.statusOf(err)
	if status == Failed || status == DeadLettered {
		d.client.log.WarnContext(ctx, "a message was not handled", "queue", message.Queue, "partition", message.Partition,
			"transaction_id", message.TransactionID, "attempt", message.Attempt, "status", string(status), "error", err)
	}
	switch status {
	case Completed:
		d.finished = append(d.finished, ackItem{Ack: message.Ack(status, nil)})
	case DeadLettered:
		d.finished = append(d.finished, ackItem{Ack: message.Ack(status, err)})
		d.submit()
		// If a later message is completed before this is certain, also by its handler, the cursor passes this message
		// and it is lost. After a refusal, nothing more of the delivery is handled; see lost.
		if !d.sent.answered() {
			d.release(message)
			pauseFor(ctx, afterError) // otherwise a server that always fails gets the message again and again without a pause
		}
	case Retry, Failed:
		d.end(message, status, pause, err)
		// If this failure makes the message a dead letter, the lease lives on for the others. This releases it. Otherwise
		// it is refused.
		for _, next := range rest {
			if next.PartitionID == message.PartitionID {
				d.release(next)
				break
			}
		}
	default: // the handler acknowledged this message, and so those before it
		for i := range d.finished {
			d.finished[i].mayBeRefused = true
		}
	}
}

// end acknowledges a message with a status that ends the lease of its partition.
func (d *delivery) end(message *Raw, status AckStatus, pause time.Duration, reason error) {
	d.ended[message.PartitionID] = true
	ack := message.Ack(status, reason)
	ack.RetryAfterSeconds = pause.Seconds()
	d.finished = append(d.finished, ackItem{Ack: ack})
}

// release ends the lease of the partition of a message. It has no effect if the lease has ended.
func (d *delivery) release(message *Raw) {
	d.end(message, Retry, 0, nil)
	d.finished[len(d.finished)-1].mayBeRefused = true
}

// lost reports whether the lease has ended.
func (d *delivery) lost() bool {
	return errors.Is(context.Cause(d.lease.ctx), ErrLeaseLost) || d.refused || d.sent != nil && d.sent.wasRefused()
}

// submit hands the finished acknowledgments to the acker. It blocks until the acknowledgments of this delivery that were submitted
// before are answered, because they may not be applied in another order.
func (d *delivery) submit() {
	if len(d.finished) == 0 {
		return
	}
	if d.sent != nil {
		<-d.sent.done
		d.refused = d.refused || d.sent.wasRefused()
	}
	d.sent = d.acks.submit(d.finished)
	d.finished, d.sentAt = nil, time.Now()
}

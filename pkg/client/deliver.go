package client

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// ackInterval is how long the acknowledgment of a finished message waits while the worker handles later messages of the pop.
const ackInterval = time.Second

// delivery is the state of the messages of one pop. It belongs to one worker.
type delivery struct {
	*consumer
	lease *lease
	// ended has the partitions whose remaining messages the worker does not handle, because the server delivers them again.
	ended map[string]bool
	// finished are acknowledgments that are not submitted yet. sent is the last submission, or nil.
	finished []ackItem
	sent     *submission
	sentAt   time.Time
	// refused means that a submission before sent was refused.
	refused bool
	// spans has the process spans of the handled messages.
	spans map[*Raw]trace.SpanContext
}

// deliver handles the messages of a pop and acknowledges them. When ctx ends or the lease is lost, it releases the remaining
// messages.
func (w *consumer) deliver(ctx context.Context, messages []*Raw) {
	d := &delivery{consumer: w, ended: map[string]bool{}, spans: map[*Raw]trace.SpanContext{}, sentAt: time.Now(), lease: w.hold(messages[0].LeaseID)}
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

// handleMessage handles a message. rest are the later messages of the same pop.
func (d *delivery) handleMessage(message *Raw, rest []*Raw) {
	ctx := d.lease.ctx
	if message.TraceID != "" {
		ctx = WithTraceID(ctx, message.TraceID)
	}
	ctx, span, end := d.client.spans.Process(ctx, message)
	err := d.handle(ctx, message)
	end(err)
	if span.IsValid() {
		d.spans[message] = span
	}
	status, pause := d.statusOf(err)
	if status == Failed || status == DeadLettered {
		d.client.log.WarnContext(ctx, "a message was not handled", "queue", message.Queue, "partition", message.Partition,
			"transaction_id", message.TransactionID, "attempt", message.Attempt, "status", string(status), "error", err)
	}
	switch status {
	case Completed:
		d.finished = append(d.finished, ackItem{Ack: message.Ack(status, nil), span: span})
	case DeadLettered:
		d.finished = append(d.finished, ackItem{Ack: message.Ack(status, err), span: span})
		d.submit()
		// This message must be a dead letter before a later message is completed. Otherwise the cursor passes this message,
		// and the message is lost. A handler may complete a later message itself. After a refusal, lost ends the delivery.
		if !d.sent.answered() {
			d.release(message)
			pauseFor(ctx, afterError) // without the pause, a failing server would get the same request in a tight loop
		}
	case Retry, Failed:
		d.end(message, status, pause, err)
		// If this failure makes the message a dead letter, the lease stays for the later messages. The release of the next
		// message ends it. If the lease has ended already, the server refuses the release.
		for _, next := range rest {
			if next.PartitionID == message.PartitionID {
				d.release(next)
				break
			}
		}
	default: // the handler acknowledged this message, so the cursor has passed the earlier messages too
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
	if decided := (*handled)(nil); errors.As(reason, &decided) {
		ack.PauseGroupSeconds = decided.groupPause.Seconds()
	}
	d.finished = append(d.finished, ackItem{Ack: ack, span: d.spans[message]})
}

// release ends the lease on the partition of a message. It has no effect if the lease has ended.
func (d *delivery) release(message *Raw) {
	d.end(message, Retry, 0, nil)
	d.finished[len(d.finished)-1].mayBeRefused = true
}

// lost reports whether the lease has ended.
func (d *delivery) lost() bool {
	return errors.Is(context.Cause(d.lease.ctx), ErrLeaseLost) || d.refused || d.sent != nil && d.sent.wasRefused()
}

// submit passes the finished acknowledgments to the acker. First it waits for the answer to the previous submission of this
// delivery, because the server must apply the submissions in order.
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

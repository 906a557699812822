package model_test

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// These are the errors of acks in answers of the HTTP API.
const (
	notFound     = "Message not found"
	staleLease   = "Invalid or expired lease"
	neverPopped  = "The consumer group has not popped from this partition"
	afterFailure = "Not applied: an earlier message of this partition failed in the same call, so this one is redelivered with it"
	noReason     = "Retries exhausted"
)

// ackAnswer is the answer to one ack.
type ackAnswer struct {
	success, dead, released bool
	err                     string
}

// ackInput is an ack of an existing message in a partition from which the group has popped.
type ackInput struct {
	index int // in the call
	seq   int64
	item  queue.AckItem
	gone  bool
}

// ack applies one call. It applies the acks of each cursor in seq order.
func (w *world) ack(items []queue.AckItem) []ackAnswer {
	type cursorOf struct {
		*partition
		*cursor
	}
	verdicts := make([]ackAnswer, len(items))
	text := map[cursorOf][]ackInput{}
	for i, item := range items {
		id, err := queue.ParseID(item.PartitionID)
		p := w.partitionOf(id)
		switch {
		case err != nil || p == nil || w.seqOf(p, item) == 0:
			verdicts[i].err = notFound
		case p.cursors[item.Group] == nil && item.LeaseID != "":
			verdicts[i].err = staleLease
		case p.cursors[item.Group] == nil:
			verdicts[i].err = neverPopped
		default:
			h := cursorOf{p, p.cursors[item.Group]}
			text[h] = append(text[h], ackInput{i, w.seqOf(p, item), item, p.log[w.seqOf(p, item)-1].gone})
		}
	}
	for h, list := range text {
		slices.SortStableFunc(list, func(a, b ackInput) int { return cmp.Compare(a.seq, b.seq) })
		w.ackCursor(h.partition, h.cursor, list, verdicts)
	}
	return verdicts
}

// ackCursor applies the acks of one cursor in seq order.
func (w *world) ackCursor(p *partition, c *cursor, all []ackInput, verdicts []ackAnswer) {
	before := *c
	list, redelivered := w.ackRedriven(c, all, verdicts)
	if before.underRedelivery() {
		before.leaseEnd = math.MaxInt64 // acks of messages in the log must not end a lease of redriven messages
	}
	var stopped, failed, touched bool
	for _, s := range list {
		v := &verdicts[s.index]
		if s.item.LeaseID != "" && (!before.live || strings.ToLower(s.item.LeaseID) != before.lease.String()) {
			v.err = staleLease
			continue
		}
		if s.item.Status == queue.AckUnknown {
			continue
		}
		done := s.seq <= c.committed
		exhausted := s.item.Status == queue.AckFailed && !done && !stopped && int64(c.failures) >= w.retryLimit
		switch {
		case s.item.Status == queue.AckDead || exhausted:
			v.dead, touched = true, true
			c.deadLetter(s)
		case done: // acknowledged before
		case s.item.Status != queue.AckCompleted:
			stopped, touched = true, true
			failed = failed || s.item.Status == queue.AckFailed
		case stopped:
			v.err = afterFailure
		default:
			c.committed, c.failures, touched = s.seq, 0, true
		}
		v.success = v.err == ""
	}
	if touched {
		w.finishAcks(p, c, &before, stopped, failed)
	}
	redelivered.finish(w, p, c)
	for _, s := range all {
		verdicts[s.index].released = !c.live
	}
}

// deadLetter makes a message a dead letter. It changes nothing if the message is in skip, because such a message is a dead
// letter already.
func (c *cursor) deadLetter(s ackInput) {
	if slices.Contains(c.skip, s.seq) {
		return
	}
	c.park(s, c.failures)
	if s.seq > c.committed {
		c.skip = append(c.skip, s.seq)
		slices.Sort(c.skip)
	}
}

func (c *cursor) park(s ackInput, failures int32) {
	if _, ok := c.deadLetters[s.seq]; !ok && !s.gone {
		c.deadLetters[s.seq] = deadLetter{failures, cmp.Or(s.item.Error, noReason)}
	}
}

// finishAcks updates the cursor after a call that changed something.
func (w *world) finishAcks(p *partition, c, before *cursor, stopped, failed bool) {
	for slices.Contains(c.skip, c.committed+1) {
		c.committed++
	}
	c.skip = slices.DeleteFunc(c.skip, func(seq int64) bool { return seq <= c.committed })
	c.consumed += c.committed - before.committed
	if c.committed > before.committed {
		c.failures, c.delayed = 0, false
		// The first message was delivered at most once, together with its batch.
		c.attempts = min(c.attempts, 1)
		if c.committed >= before.leaseEnd {
			c.attempts = 0
		}
	}
	if failed && before.live {
		c.failures++
		c.delayed = c.delayed || w.backoff
	}
	if stopped || !before.live || c.committed >= before.leaseEnd {
		w.recomputeReady(p, c)
	}
}

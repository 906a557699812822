package model_test

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// The errors of acks, as the HTTP API returns them.
const (
	notFound     = "Message not found"
	staleLease   = "Invalid or expired lease"
	neverPopped  = "The consumer group has not popped from this partition"
	afterFailure = "Not applied: an earlier message of this partition failed in the same call, so this one is redelivered with it"
	noReason     = "Retries exhausted"
)

// ackAnswer is the answer to one ack.
type verdict struct {
	success, dead, released bool
	err                     string
}

// ackInput is an ack of an existing message, in a partition from which the group has popped.
type saying struct {
	at   int // its place in the call
	seq  int64
	item queue.AckItem
	gone bool
}

// ack applies one call. It applies the acks of each cursor in the order of the log.
func (w *world) ack(items []queue.AckItem) []verdict {
	type home struct {
		*lane
		*place
	}
	verdicts := make([]verdict, len(items))
	said := map[home][]saying{}
	for i, item := range items {
		id, err := queue.ParseID(item.PartitionID)
		l := w.laneOf(id)
		switch {
		case err != nil || l == nil || w.seqOf(l, item) == 0:
			verdicts[i].err = notFound
		case l.places[item.Group] == nil && item.LeaseID != "":
			verdicts[i].err = staleLease
		case l.places[item.Group] == nil:
			verdicts[i].err = neverPopped
		default:
			h := home{l, l.places[item.Group]}
			said[h] = append(said[h], saying{i, w.seqOf(l, item), item, l.log[w.seqOf(l, item)-1].gone})
		}
	}
	for h, list := range said {
		slices.SortStableFunc(list, func(a, b saying) int { return cmp.Compare(a.seq, b.seq) })
		w.judge(h.lane, h.place, list, verdicts)
	}
	return verdicts
}

// ackCursor applies the acks of one cursor, in the order of the log.
func (w *world) judge(l *lane, p *place, all []saying, verdicts []verdict) {
	before := *p
	list, redelivered := w.judgeRedriven(p, all, verdicts)
	if before.underRedelivery() {
		before.leaseEnd = math.MaxInt64 // no ack of the log ends it
	}
	var stopped, failed, touched bool
	for _, s := range list {
		v := &verdicts[s.at]
		if s.item.LeaseID != "" && (!before.live || strings.ToLower(s.item.LeaseID) != before.lease.String()) {
			v.err = staleLease
			continue
		}
		if s.item.Status == queue.AckUnknown {
			continue
		}
		done := s.seq <= p.committed
		exhausted := s.item.Status == queue.AckFailed && !done && !stopped && int64(p.failures) >= w.retryLimit
		switch {
		case s.item.Status == queue.AckDead || exhausted:
			v.dead, touched = true, true
			p.bury(s)
		case done: // acknowledged before
		case s.item.Status != queue.AckCompleted:
			stopped, touched = true, true
			failed = failed || s.item.Status == queue.AckFailed
		case stopped:
			v.err = afterFailure
		default:
			p.committed, p.failures, touched = s.seq, 0, true
		}
		v.success = v.err == ""
	}
	if touched {
		w.settle(l, p, &before, stopped, failed)
	}
	redelivered.finish(w, l, p)
	for _, s := range all {
		verdicts[s.at].released = !p.live
	}
}

// deadLetter dead-letters a message unless it is skipped: skipped messages are already dead letters.
func (p *place) bury(s saying) {
	if slices.Contains(p.skip, s.seq) {
		return
	}
	p.park(s, p.failures)
	if s.seq > p.committed {
		p.skip = append(p.skip, s.seq)
		slices.Sort(p.skip)
	}
}

func (p *place) park(s saying, failures int32) {
	if _, ok := p.letters[s.seq]; !ok && !s.gone {
		p.letters[s.seq] = letter{failures, cmp.Or(s.item.Error, noReason)}
	}
}

// finishAcks updates the cursor after a call that changed something.
func (w *world) settle(l *lane, p, before *place, stopped, failed bool) {
	for slices.Contains(p.skip, p.committed+1) {
		p.committed++
	}
	p.skip = slices.DeleteFunc(p.skip, func(seq int64) bool { return seq <= p.committed })
	p.consumed += p.committed - before.committed
	if p.committed > before.committed {
		p.failures, p.rests = 0, false
		// The first message was delivered at most once: with its batch.
		p.attempts = min(p.attempts, 1)
		if p.committed >= before.leaseEnd {
			p.attempts = 0
		}
	}
	if failed && before.live {
		p.failures++
		p.rests = p.rests || w.backoff
	}
	if stopped || !before.live || p.committed >= before.leaseEnd {
		w.rearm(l, p)
	}
}

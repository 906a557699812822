package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// judge computes an Answer from facts. It reads no other state.
type judge struct {
	Question
	*facts
	in     Instance
	search *search // nil if the question names the partition
}

// verdict is a code with its sentence. until becomes Answer.NextChangeAt. next is the message that is delivered next.
type verdict struct {
	code     Code
	sentence string
	until    time.Time
	next     message
}

func because(code Code, format string, args ...any) verdict {
	return verdict{code: code, sentence: fmt.Sprintf(format, args...)}
}

func (j *judge) answer() Answer {
	v, found := j.missing()
	if !found && j.TransactionID != "" {
		v, found = j.settled()
	}
	if !found {
		v, found = j.closed()
	}
	if !found {
		v = j.partition()
	}
	a := Answer{At: j.now, Failures: j.failures, Deliveries: j.attempts, Lag: max(0, j.lag), Sweeps: j.sweeps(), Next: v.next.transactionID}
	if v.code == Deliverable && j.TransactionID != "" && v.next.seq != j.message.seq {
		v = j.behind(v.next)
	}
	if j.in.Waiting != nil {
		a.Waiting = j.in.Waiting(j.Partition, j.namespace, j.task)
	}
	if v.code == Deliverable && a.Waiting == 0 {
		v.code, v.sentence = NoWaiter, v.sentence+" No request waits for it on this instance."
	}
	if v.code == Resting && v.next.seq == j.again.seq && j.again.seq != 0 {
		a.Failures = j.againFailures
	}
	if j.message.seq > j.committed && !j.redriven {
		a.Ahead = j.message.seq - j.committed - 1
	}
	a.Code, a.Sentence, a.NextChangeAt, a.Partition = v.code, j.searchText()+v.sentence, v.until, j.Partition
	a.ConsumedAt, a.Attempts = j.consumedAt, j.attemptsOf()
	if j.headers != "" {
		a.Headers = queue.Headers(j.headers)
	}
	return a
}

// attemptsOf returns the stored attempts to deliver the message of the question. The cursor counts the
// attempts of the first message after the cursor. The row of a redriven message counts its attempts. For a
// later message of the log, the database stores only the lease.
func (j *judge) attemptsOf() *Attempts {
	var a Attempts
	switch m := &j.message; {
	case m.seq == 0 || !j.cursorExists || !j.deadAt.IsZero() || j.skipped.Bool:
		return nil
	case j.redriven:
		a = Attempts{Deliveries: j.ownAttempts, Failures: j.ownFailures, RetryAt: j.ownRetry, RedrivenAt: j.redrivenAt}
	case m.seq <= j.committed:
		return nil
	case m.seq == j.front.seq:
		a = Attempts{Deliveries: j.attempts, Failures: j.failures, RetryAt: j.retryAt}
	}
	if j.leaseLives() && j.holds() {
		a.LeasedUntil = j.leaseTill
		a.Deliveries = max(a.Deliveries, 1)
	}
	if !a.RetryAt.After(j.now) {
		a.RetryAt = time.Time{}
	}
	if a == (Attempts{}) {
		return nil
	}
	return &a
}

// missing finds a queue, partition or message that does not exist.
func (j *judge) missing() (v verdict, found bool) {
	spooled := ""
	if j.in.PushMaintenance {
		spooled = " Push maintenance is on, so a push may still be on the disk of an instance."
	}
	switch {
	case !j.queueExists:
		return because(NoQueue, "The queue %q does not exist. Its first push, or configure, creates it.%s", j.Queue, spooled), true
	case j.search != nil && len(j.search.found) == 0 && j.search.partitions > maxSearched:
		return because(NotSearched, "The first %d partitions of the queue, by name, have no message with this transaction id. The queue has more: name the partition.%s", maxSearched, spooled), true
	case j.search != nil && len(j.search.found) == 0:
		return because(NotStored, "No partition of the queue has a message with this transaction id (all %d were searched). It was never pushed, or it was deleted%s.%s",
			j.search.partitions, j.sweepText(), spooled), true
	case !j.partitionExists:
		return because(NoPartition, "The queue has no partition %q. Nothing was pushed to it, or it was removed when it was idle.%s", j.Partition, spooled), true
	case j.TransactionID != "" && j.message.seq == 0:
		return because(NotStored, "The partition %q has no message with this transaction id. It was never pushed to this partition, or it was deleted%s.%s", j.Partition, j.sweepText(), spooled), true
	default:
		return v, false
	}
}

// searchText says in which partitions a search found the message. The sentence of the verdict is about the first one.
func (j *judge) searchText() string {
	switch {
	case j.search == nil || len(j.search.found) == 0:
		return ""
	case len(j.search.found) == 1:
		return fmt.Sprintf("The message is in the partition %q. ", j.Partition)
	default:
		return fmt.Sprintf("Several partitions have a message with this transaction id: %q. In the first of them: ", j.search.found)
	}
}

// settled finds why no pop will receive the message of the question, or whether a lease covers it now.
func (j *judge) settled() (v verdict, found bool) {
	m := &j.message
	inLog := !j.redriven && j.cursorExists
	switch {
	case !j.deadAt.IsZero():
		return because(DeadLettered, "The message is a dead letter of the group since %s: %s. Redrive it to deliver it again.", text(j.deadAt), j.deadError), true
	case inLog && m.seq <= j.committed && !j.groupStart.IsZero() && !m.createdAt.After(j.groupStart):
		return because(BeforeStart, "The group starts with messages stored after %s. This message was stored before.", text(j.groupStart)), true
	case inLog && m.seq <= j.committed && j.expired > 0:
		return because(Acknowledged, "The group is done with the message. %d messages of the partition expired for the group, and this may be one of them.", j.expired), true
	case inLog && m.seq <= j.committed:
		return because(Acknowledged, "The group is done with the message: it was acknowledged, or a seek passed it."), true
	case inLog && j.skipped.Bool:
		return because(DeadLettered, "The message was a dead letter of the group, and the dead letter was purged."), true
	case j.leaseLives() && j.holds():
		v = because(Leased, "The message is delivered, and its lease ends at %s.", text(j.leaseTill))
		v.until = j.leaseTill
		return v, true
	case !j.redriven && j.hasExpired(m):
		return because(Expired, "The message expired %d s after it was stored (expireAfterSeconds). Pops skip it.", j.expireAfter), true
	default:
		return v, false
	}
}

// closed finds a reason why no pop of the group receives messages of the partition.
func (j *judge) closed() (v verdict, found bool) {
	switch {
	case j.in.PopMaintenance:
		return because(PopMaintenance, "Pop maintenance is on: all pops are answered without messages."), true
	case j.queuePaused.Bool:
		return because(QueuePaused, "The queue is paused."), true
	case j.partitionPaused.Bool:
		return because(PartitionPaused, "The partition is paused."), true
	case j.groupPaused.Bool:
		return because(GroupPaused, "The consumer group is paused."), true
	case !j.groupExists:
		return because(NoGroup, "The consumer group has not popped from the queue yet. Its first pop decides where it starts."), true
	case !j.cursorExists:
		return because(NoCursor, "The consumer group has no cursor in this partition yet. Its next pop creates the cursor."), true
	default:
		return v, false
	}
}

// partition judges the next pop from the partition.
func (j *judge) partition() verdict {
	if j.leaseLives() {
		v := because(Leased, "The first messages are delivered, and their lease ends at %s. An ack ends it earlier.", text(j.leaseTill))
		v.until, v.next = j.leaseTill, j.front
		return v
	}
	v := j.log()
	if j.again.seq > 0 {
		switch rest := j.againRetry; {
		case !rest.After(j.now):
			v = because(Deliverable, "The next pop receives the redriven message %q.", j.again.transactionID)
			v.next = j.again
		case v.code != Deliverable && (v.until.IsZero() || rest.Before(v.until)):
			v = because(Resting, "The redriven message %q failed %d times and rests until %s.", j.again.transactionID, j.againFailures, text(rest))
			v.until, v.next = rest, j.again
		}
	}
	if v.code == Deliverable && (j.readyAt.IsZero() || j.readyAt.After(j.now)) {
		next := v.next
		v = because(NotReady, "Messages are there, but the cursor is not marked ready. Either a change of options is being applied, or a server crashed and another server will mark the cursor ready.")
		v.until, v.next = j.readyAt, next
	}
	return v
}

// log judges the messages after the cursor.
func (j *judge) log() verdict {
	head, expired := &j.head, j.hasExpired(&j.front)
	switch {
	case j.startAt.After(j.now):
		v := because(StartsLater, "The group starts at %s.", text(j.startAt))
		v.until = j.startAt
		return v
	case !j.startAt.IsZero(), j.front.seq == 0:
		return because(Empty, "Nothing is left for the group in the partition.")
	}
	if j.blocked {
		return j.blockedHead()
	}
	if v, held := j.held(&j.front); held {
		return v
	}
	if !expired && j.maxDeliveries > 0 && j.attempts >= j.maxDeliveries && head.seq > 0 {
		if j.second.seq == 0 || j.onExhausted == "block" {
			does := map[string]string{"deadLetter": "makes it a dead letter", "block": "blocks the partition", "skip": "skips it"}[j.onExhausted]
			v := because(Undeliverable, "The message %q was delivered %d times without success (maxDeliveries). The next pop %s.", head.transactionID, j.attempts, does)
			v.next = *head
			return v
		}
		head = &j.second
	}
	switch {
	case head.seq == 0 && expired:
		return because(Expired, "All remaining messages expired %d s after they were stored (expireAfterSeconds).", j.expireAfter)
	case head.seq == 0:
		return because(Empty, "Nothing is left for the group in the partition.")
	case j.visibleAt(head).After(j.now):
		return j.delayed(head)
	}
	v := because(Deliverable, "The next pop receives the message %q.", head.transactionID)
	v.next = *head
	return v
}

// blockedHead says at which message the partition is blocked, and the ways out.
func (j *judge) blockedHead() verdict {
	at := ""
	if !j.blockedAt.IsZero() {
		at = " at " + text(j.blockedAt)
	}
	v := because(Blocked, "The partition is blocked: the message %q used its retries%s. Ways out: unblock the partition with the action retry, deadLetter or skip.",
		j.head.transactionID, at)
	v.next = j.head
	return v
}

// held finds why no message of the log may be delivered yet: the retry delay, the window or the delay of the first
// message, whichever ends last.
func (j *judge) held(front *message) (v verdict, held bool) {
	until := latest(j.retryAt, j.windowEnd, j.visibleAt(front))
	switch {
	case !until.After(j.now):
		return v, false
	case until.Equal(j.retryAt) && j.failures == 0:
		v = because(Resting, "The message %q could not be read or opened, and rests until %s.", front.transactionID, text(until))
	case until.Equal(j.retryAt):
		v = because(Resting, "The message %q failed %d times and rests until %s.", front.transactionID, j.failures, text(until))
	case until.Equal(j.windowEnd):
		v = because(WindowOpen, "The partition collects messages until %s (windowBuffer).", text(until))
	default:
		return j.delayed(front), true
	}
	v.until, v.next = until, *front
	return v, true
}

func (j *judge) delayed(m *message) verdict {
	v := because(Delayed, "The message %q is delayed until %s.", m.transactionID, text(j.visibleAt(m)))
	v.until, v.next = j.visibleAt(m), *m
	return v
}

// behind judges the message of the question when the next pop receives another message, next.
func (j *judge) behind(next message) verdict {
	if at := j.visibleAt(&j.message); at.After(j.now) && !j.redriven {
		v := j.delayed(&j.message)
		return v
	}
	return because(Behind, "The next pop receives the message %q, which comes first.", next.transactionID)
}

// leaseLives reports whether the cursor has a lease that has not expired.
func (j *judge) leaseLives() bool { return j.leaseTill.After(j.now) }

// holds reports whether the lease of the cursor covers the message of the question.
func (j *judge) holds() bool {
	if j.redriven {
		return j.leaseEnd < 0 && j.ownLease.Bool
	}
	return j.message.seq <= j.leaseEnd
}

// sweeps returns the rules that delete messages of the queue or let pops skip them.
func (j *judge) sweeps() []string {
	on := []string{}
	for _, rule := range []struct {
		name    string
		seconds int64
	}{{"retention", j.retention}, {"completed", j.completedRetention}, {"evicted", j.maxWaitTime}, {"expired", j.expireAfter}} {
		if rule.seconds > 0 {
			on = append(on, rule.name)
		}
	}
	return on
}

func (j *judge) sweepText() string {
	if on := j.sweeps(); len(on) > 0 {
		return " by an operator or a sweep (" + strings.Join(on, ", ") + ")"
	}
	return " by an operator; no sweep of the queue is on"
}

func latest(instants ...time.Time) (at time.Time) {
	for _, t := range instants {
		if t.After(at) {
			at = t
		}
	}
	return at
}

func text(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// transaction is a request to the transaction endpoint, with all repetitions of the request. It has one push and
// possibly acks, or only acks.
type transaction struct {
	id string
	// attempts are the pushes of all attempts in order, or the acks if the transaction has no push. done is the first
	// attempt that was answered with success. unknown means that some attempt got no answer.
	attempts []*history.Operation
	done     *history.Operation
	unknown  bool
	pushes   []inLane
}

// inLane is a message and its lane.
type inLane struct {
	lane  *lane
	entry *entry
}

// transaction returns the transaction of a push, or of an ack. It adds the operation to the attempts, unless the
// operation is an ack of a transaction that pushes.
func (x *index) transaction(op *history.Operation) *transaction {
	t := x.transacted[op.Transaction]
	if t != nil && op.Kind == history.Ack && len(t.pushes) > 0 {
		return t
	}
	if t == nil {
		t = &transaction{id: op.Transaction}
		x.transacted[t.id] = t
		x.transactions = append(x.transactions, t)
	}
	if !slices.Contains(t.attempts, op) {
		t.attempts = append(t.attempts, op)
		t.unknown = t.unknown || op.Outcome == history.Unknown
		if t.done == nil && op.Outcome == history.Done {
			t.done = op
		}
	}
	return t
}

func (t *transaction) push(l *lane, e *entry) {
	if one := (inLane{l, e}); !slices.Contains(t.pushes, one) {
		t.pushes = append(t.pushes, one)
	}
}

// stored returns the first message of the transaction in the log, and the first message that is missing in the log.
func (t *transaction) stored() (stored, missing *inLane) {
	for i := range t.pushes {
		switch p := &t.pushes[i]; {
		case p.entry.rows > 0 && stored == nil:
			stored = p
		case p.entry.rows == 0 && missing == nil:
			missing = p
		}
	}
	return stored, missing
}

// mayHaveApplied reports whether the transaction may have been applied. If the transaction pushes, its messages in
// the log decide.
func (x *index) mayHaveApplied(t *transaction) bool {
	if len(t.pushes) == 0 {
		return t.done != nil || t.unknown && !x.notApplied(t)
	}
	stored, _ := t.stored()
	return t.done != nil || t.unknown && stored != nil
}

// notApplied reports whether a transaction without pushes was certainly not applied. This is certain if a pop that
// claimed after the transaction began delivered a message that the transaction completes. Proof:
//
//  1. If the server had applied the transaction before that claim, the cursor would have been beyond the message.
//  2. If the server handled the transaction after that claim, the lease of the transaction had ended. So the server
//     refused it.
func (x *index) notApplied(t *transaction) bool {
	began := t.attempts[0].Begin
	undone := false
	for _, op := range t.attempts {
		x.byLane(op, func(l *lane, items []*history.Item) {
			r := x.readerOf(l, op)
			if r == nil {
				undone = true // a crash of the database lost the lease of the transaction
				return
			}
			for _, d := range r.deliveries {
				if d.after <= began || d.op.LeaseID == op.LeaseID || d.redelivery {
					continue
				}
				undone = undone || slices.ContainsFunc(items, func(item *history.Item) bool {
					return item.Status == completed && slices.Contains(d.entries, l.byID[item.TransactionID])
				})
			}
		})
	}
	return undone
}

// appliedBy returns the latest time at which the transaction was applied: the time of its successful answer, or the
// delivery of a message that it stored.
func (t *transaction) appliedBy() time.Duration {
	by := forever
	if t.done != nil {
		by = t.done.End
	}
	for _, p := range t.pushes {
		if p.entry.rows > 0 {
			by = min(by, p.entry.by)
		}
	}
	return by
}

// firstAttempt reports whether an ack that was answered with success took effect during op. A repetition takes no
// effect: it only confirms an earlier attempt of its transaction.
func (x *index) firstAttempt(op *history.Operation) bool {
	t := x.transacted[op.Transaction]
	return t == nil || len(t.attempts) == 1 || op.Begin < t.attempts[1].Begin
}

// noteUnapplied records the acks of a transaction that was certainly not applied.
func (x *index) noteUnapplied(op *history.Operation) {
	x.byLane(op, func(l *lane, items []*history.Item) {
		r := x.readerOf(l, op)
		for _, item := range items {
			if e := l.byID[item.TransactionID]; r != nil && e != nil && e.ordinal > 0 {
				if r.unapplied == nil {
					r.unapplied = map[int]*transaction{}
				}
				r.unapplied[e.ordinal] = x.transacted[op.Transaction]
			}
		}
	})
}

// at returns a violation of the rule atomic by the acks of the transaction.
func (t *transaction) at(r *reader, op *history.Operation, message string) Violation {
	v := r.at("atomic", op, fmt.Sprintf("transaction %s: %s", t.id, message))
	v.Transaction = t.id
	return v
}

// passedUnapplied returns a violation if the cursor passed a message that only a transaction acknowledged, although
// the transaction was not applied. It examines the messages up to an ordinal.
func (r *reader) passedUnapplied(op *history.Operation, f *progress, upto int) []Violation {
	for ordinal := f.next; ordinal <= upto; ordinal++ {
		if t := r.unapplied[ordinal]; t != nil && !f.done[ordinal] {
			why := "none of its pushes is in the log"
			if len(t.pushes) == 0 {
				why = "it was not applied"
			}
			return []Violation{t.at(r, op, fmt.Sprintf(
				why+", but the cursor passed %q at %d, which only this transaction acknowledged",
				r.lane.log[ordinal-1].transaction, r.lane.log[ordinal-1].seq))}
		}
	}
	return nil
}

// atomic checks the rule atomic: the log has all pushes of a transaction or none, and none if the transaction was
// refused. The functions passedUnapplied and notDeliveredAgain check the acks of the transaction.
func atomic(x *index) []Violation {
	var found []Violation
	for _, t := range x.transactions {
		stored, missing := t.stored()
		complain := func(p *inLane, op *history.Operation, format string, args ...any) {
			v := p.lane.at("atomic", op, fmt.Sprintf("transaction %s: ", t.id)+fmt.Sprintf(format, args...))
			v.Transaction = t.id
			found = append(found, v)
		}
		switch {
		case stored != nil && missing != nil:
			complain(missing, t.attempts[0], "%q is not in the log, but %q of the same transaction is at %d",
				missing.entry.transaction, stored.entry.transaction, stored.entry.seq)
		case missing != nil && t.done != nil:
			complain(missing, t.done, "it was applied, but %q is not in the log", missing.entry.transaction)
		case stored != nil && t.done == nil && !t.unknown:
			complain(stored, t.attempts[0], "it was refused, but %q is in the log at %d", stored.entry.transaction, stored.entry.seq)
		}
	}
	return found
}

package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// transaction is a request of the transaction endpoint with all its repetitions. It has one push and may have acks, or
// it has acks alone.
type transaction struct {
	id string
	// attempts are the pushes of the tries in order, or the acks if the transaction pushes nothing. done is the first
	// attempt answered with success. unknown: some attempt was not answered.
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

// stored returns the first message of the transaction that is in the log, and the first that is not.
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

// mayHaveApplied reports whether the transaction may have been applied. If it pushes, its messages show that.
func (x *index) mayHaveApplied(t *transaction) bool {
	if len(t.pushes) == 0 {
		return t.done != nil || t.unknown && !x.notApplied(t)
	}
	stored, _ := t.stored()
	return t.done != nil || t.unknown && stored != nil
}

// notApplied reports whether a transaction without pushes cannot have been applied. Proof:
// 1. A pop, which claimed after the transaction began, delivered a message that the transaction completes.
// 2. If the transaction was applied before that claim, there was nothing to claim.
// 3. If it was applied after that claim, its own lease had ended, so it was refused.
func (x *index) notApplied(t *transaction) bool {
	began := t.attempts[0].Begin
	undone := false
	for _, op := range t.attempts {
		x.byLane(op, func(l *lane, items []*history.Item) {
			r := x.readerOf(l, op)
			if r == nil {
				undone = true // a crash of the database lost its lease
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

// appliedBy is the latest time at which the transaction was applied: its success was answered, or a message that it
// stored was delivered.
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

// firstAttempt reports whether an ack answered with success took effect during that operation. A repetition only
// confirms what an earlier attempt of its transaction did.
func (x *index) firstAttempt(op *history.Operation) bool {
	t := x.transacted[op.Transaction]
	return t == nil || len(t.attempts) == 1 || op.Begin < t.attempts[1].Begin
}

// noteUnapplied notes an ack whose transaction cannot have been applied.
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

// at returns a violation by the acks of a transaction.
func (t *transaction) at(r *reader, op *history.Operation, message string) Violation {
	v := r.at("atomic", op, fmt.Sprintf("transaction %s: %s", t.id, message))
	v.Transaction = t.id
	return v
}

// passedUnapplied returns a violation if the cursor passed a message, up to an ordinal, that only a transaction
// acknowledged which was not applied.
func (r *reader) passedUnapplied(op *history.Operation, f *progress, upto int) []Violation {
	for ordinal := f.next; ordinal <= upto; ordinal++ {
		if t := r.unapplied[ordinal]; t != nil && !f.done[ordinal] {
			why := "nothing of it is in the log"
			if len(t.pushes) == 0 {
				why = "it was not applied"
			}
			return []Violation{t.at(r, op, fmt.Sprintf(
				why+", but %q at %d, which it acknowledged, was passed and is not done otherwise",
				r.lane.log[ordinal-1].transaction, r.lane.log[ordinal-1].seq))}
		}
	}
	return nil
}

// atomic: the pushes of a transaction are stored all or none, and none if it was refused. The functions passedUnapplied
// and notDeliveredAgain judge its acks.
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
			complain(missing, t.attempts[0], "%q is not in the log, but %q, pushed with it, is at %d",
				missing.entry.transaction, stored.entry.transaction, stored.entry.seq)
		case missing != nil && t.done != nil:
			complain(missing, t.done, "it was applied, but %q is not in the log", missing.entry.transaction)
		case stored != nil && t.done == nil && !t.unknown:
			complain(stored, t.attempts[0], "it was refused, but %q is in the log at %d", stored.entry.transaction, stored.entry.seq)
		}
	}
	return found
}

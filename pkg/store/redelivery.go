package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// redriven is a message that was put back for a group, and not settled yet.
type redriven struct {
	seq      int64
	failures int32
	// leased: the cursor's lease delivered it.
	leased bool
	// settled: it was completed or dead-lettered in this flush; failed: it failed.
	settled, failed bool
	// rest is how long it rests, 0: not.
	rest time.Duration
}

// redeliveryChange is what becomes of a cursor by its redriven messages.
type redeliveryChange struct {
	changed bool
	// settled are the messages settled, held those of them that the lease held.
	settled int32
	held    int64
	release bool
}

// underRedelivery: the live lease is that of a redelivery, not of the log.
func (state cursorState) underRedelivery() bool { return state.leaseLive && state.leaseEnd < 0 }

// judge lets the rules judge the entries of one call: those of redriven messages
// by the rules of redeliveries, the others by those of the log.
func (c *ackCursor) judge(entries []ackEntry) (ackChange, []ackVerdict) {
	state := c.state
	if len(c.redriven) == 0 && !state.underRedelivery() {
		return decideAck(state, entries)
	}
	verdicts := make([]ackVerdict, len(entries))
	var log []ackEntry
	var places []int
	for i, entry := range entries {
		message := c.redriven[entry.seq]
		switch {
		case message != nil && (message.leased || entry.lease == "") && c.behind(message):
			verdicts[i] = c.redelivered.decide(state, message, entry)
		case state.underRedelivery() && entry.lease == state.leaseID:
			// Settled before: saying it again changes nothing.
			verdicts[i].success = entry.status != queue.AckUnknown
		default:
			log, places = append(log, entry), append(places, i)
		}
	}
	if state.underRedelivery() {
		// No acknowledgment of the log finishes this lease.
		state.leaseEnd = math.MaxInt64
	}
	change, ofLog := decideAck(state, log)
	for i, place := range places {
		verdicts[place] = ofLog[i]
	}
	if c.redelivered.changed {
		remaining := -c.state.leaseEnd - c.redelivered.held
		c.redelivered.release = c.redelivered.release || !c.state.leaseLive || change.release ||
			c.state.underRedelivery() && remaining <= 0
	}
	return change, verdicts
}

// behind says whether the log leaves a redriven message to its redelivery. After
// a seek backwards it does not: then both deliver it.
func (c *ackCursor) behind(message *redriven) bool {
	return message.leased || message.seq <= c.state.committed || slices.Contains(c.state.skip, message.seq)
}

// decide judges one acknowledgment of a redriven message. Each stands for itself:
// nothing says that what lies before it in the log was done, and the cursor does
// not move. A failed one with retries left, or retry, ends the lease, and all
// that is not settled is delivered again, what failed and those behind it after its
// rest; without them it is dead-lettered again.
func (r *redeliveryChange) decide(state cursorState, message *redriven, entry ackEntry) ackVerdict {
	if entry.lease != "" && (!state.leaseLive || entry.lease != state.leaseID) {
		return ackVerdict{err: errLease}
	}
	verdict := ackVerdict{success: entry.status != queue.AckUnknown}
	failed := entry.status == queue.AckFailed
	switch {
	case message.settled, entry.status == queue.AckUnknown:
		return verdict
	case entry.status == queue.AckCompleted:
		r.settle(message)
	case entry.status == queue.AckDead, failed && int64(message.failures) >= state.retryLimit:
		r.settle(message)
		verdict.dead, verdict.park, verdict.failures = true, true, message.failures
		if failed {
			verdict.failures++
		}
	default:
		r.changed, r.release = true, true
		if failed {
			message.failures, message.failed = message.failures+1, true
			message.rest = state.rest(message.failures)
		}
	}
	return verdict
}

func (r *redeliveryChange) settle(message *redriven) {
	message.settled, r.changed = true, true
	r.settled++
	if message.leased {
		r.held++
	}
}

// findRedriven reads which of the messages were redriven. It costs nothing where
// no cursor has any.
func (f *ackFlush) findRedriven(ctx context.Context, conn *pgxpool.Conn) error {
	if !f.redriven {
		return nil
	}
	type place struct{ partition, group int64 }
	cursors := map[place]*ackCursor{}
	var partitions, groups, seqs []int64
	for _, a := range f.calls {
		for _, i := range a.found {
			if c := f.cursor(a, i); c != nil && a.seqs[i] != 0 {
				cursors[place{c.partition, c.group}] = c
				partitions, groups, seqs = append(partitions, c.partition), append(groups, c.group), append(seqs, a.seqs[i])
			}
		}
	}
	rows, err := conn.Query(ctx, sqlRedriveFind, partitions, groups, seqs)
	if err != nil {
		return fmt.Errorf("finding redriven messages: %w", err)
	}
	var at place
	var message redriven
	_, err = pgx.ForEachRow(rows, []any{&at.partition, &at.group, &message.seq, &message.failures, &message.leased}, func() error {
		c := cursors[at]
		if c.redriven == nil {
			c.redriven = map[int64]*redriven{}
		}
		one := message
		c.redriven[one.seq] = &one
		return nil
	})
	if err != nil {
		return fmt.Errorf("finding redriven messages: %w", err)
	}
	return nil
}

// redeliveryWrites are the columns of redrive_settle.sql and redrive_apply.sql.
type redeliveryWrites struct {
	partitions, groups, seqs []int64
	failures                 []int32
	rests                    []float64

	cursorPartitions, cursorGroups, held []int64
	settled                              []int32
	release                              []bool
}

func (w *redeliveryWrites) add(c *ackCursor) {
	if !c.redelivered.changed {
		return
	}
	for _, message := range c.redriven {
		if !message.settled && !message.failed {
			continue
		}
		failures := message.failures
		if message.settled {
			failures = -1
		}
		w.partitions, w.groups = append(w.partitions, c.partition), append(w.groups, c.group)
		w.seqs, w.failures = append(w.seqs, message.seq), append(w.failures, failures)
		w.rests = append(w.rests, message.rest.Seconds())
	}
	w.cursorPartitions, w.cursorGroups = append(w.cursorPartitions, c.partition), append(w.cursorGroups, c.group)
	w.settled, w.held = append(w.settled, c.redelivered.settled), append(w.held, c.redelivered.held)
	w.release = append(w.release, c.redelivered.release)
}

func (w *redeliveryWrites) queue(b *pgx.Batch) {
	if len(w.cursorPartitions) > 0 {
		b.Queue(sqlRedriveSettle, w.partitions, w.groups, w.seqs, w.failures, w.rests)
		b.Queue(sqlRedriveApply, w.cursorPartitions, w.cursorGroups, w.settled, w.held, w.release)
	}
}

func (w *redeliveryWrites) read(results pgx.BatchResults) ([]queue.Ready, error) {
	if len(w.cursorPartitions) == 0 {
		return nil, nil
	}
	if err := skip(results, "settling redriven messages"); err != nil {
		return nil, err
	}
	return readyResult(results, "moving cursors past redriven messages")
}

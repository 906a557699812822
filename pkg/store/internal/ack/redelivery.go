package ack

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/store/internal/wake"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlRedriveFind   = sql.Query("store/redrive_find")
	sqlRedriveSettle = sql.Query("store/redrive_settle")
	sqlRedriveApply  = sql.Query("store/redrive_apply")
)

// redriven is a dead letter that was put back for a group, and is not settled yet.
type redriven struct {
	seq      int64
	failures int32
	// leased: the cursor's lease delivered it.
	leased bool
	// settled: it was completed or dead-lettered in this flush; failed: it failed.
	settled, failed bool
	// retryDelay is how long it is not delivered; 0: no delay.
	retryDelay time.Duration
}

// redeliveryChange is what acks of redriven messages change in a cursor.
type redeliveryChange struct {
	changed bool
	// settled counts the settled messages, and held how many of them the lease held.
	settled int32
	held    int64
	release bool
}

// underRedelivery says that the live lease delivered redriven messages, not the log.
func (state cursorState) underRedelivery() bool { return state.leaseLive && state.leaseEnd < 0 }

// judge judges the entries of one call: entries of redriven messages by the rules of redelivery, the
// others by decideAck.
func (c *cursor) judge(entries []ackEntry) (ackChange, []ackVerdict) {
	state := c.state
	if len(c.redriven) == 0 && !state.underRedelivery() {
		return decideAck(state, entries)
	}
	verdicts := make([]ackVerdict, len(entries))
	var log []ackEntry
	var indexes []int
	for i, entry := range entries {
		message := c.redriven[entry.seq]
		switch {
		case message != nil && (message.leased || entry.lease == "") && c.redelivers(message):
			verdicts[i] = c.redelivered.decide(state, message, entry)
		case state.underRedelivery() && entry.lease == state.leaseID:
			// Settled before: a repetition changes nothing.
			verdicts[i].success = entry.status != queue.AckUnknown
		default:
			log, indexes = append(log, entry), append(indexes, i)
		}
	}
	if state.underRedelivery() {
		// No ack of a message of the log finishes this lease.
		state.leaseEnd = math.MaxInt64
	}
	change, ofLog := decideAck(state, log)
	for i, index := range indexes {
		verdicts[index] = ofLog[i]
	}
	if c.redelivered.changed {
		remaining := -c.state.leaseEnd - c.redelivered.held
		c.redelivered.release = c.redelivered.release || !c.state.leaseLive || change.release ||
			c.state.underRedelivery() && remaining <= 0
	}
	return change, verdicts
}

// redelivers says whether an ack of message concerns its redelivery. After a seek backwards the log
// delivers the message as well.
func (c *cursor) redelivers(message *redriven) bool {
	return message.leased || message.seq <= c.state.committed || slices.Contains(c.state.skip, message.seq)
}

// decide judges one ack of a redriven message. Each message counts alone and does not move the
// cursor. A failed ack with retries left, or a retry, ends the lease, and all redriven messages that
// are not settled are delivered again. A failed ack without retries left makes the message a dead
// letter again.
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
			message.retryDelay = state.retryDelay(message.failures)
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

// FindRedriven reads which messages were redriven. It makes no query when no cursor has any.
func (f *Flush) FindRedriven(ctx context.Context, conn *pgxpool.Conn) error {
	if !f.redriven {
		return nil
	}
	type cursorKey struct{ partition, group int64 }
	cursors := map[cursorKey]*cursor{}
	var partitions, groups, seqs []int64
	for _, call := range f.calls {
		for _, i := range call.Found {
			if c := f.cursor(call, i); c != nil && call.Seqs[i] != 0 {
				cursors[cursorKey{c.partition, c.group}] = c
				partitions, groups, seqs = append(partitions, c.partition), append(groups, c.group), append(seqs, call.Seqs[i])
			}
		}
	}
	rows, err := conn.Query(ctx, sqlRedriveFind, partitions, groups, seqs)
	if err != nil {
		return fmt.Errorf("finding redriven messages: %w", err)
	}
	var key cursorKey
	var message redriven
	_, err = pgx.ForEachRow(rows, []any{&key.partition, &key.group, &message.seq, &message.failures, &message.leased}, func() error {
		c := cursors[key]
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
	delays                   []float64

	cursorPartitions, cursorGroups, held []int64
	settled                              []int32
	release                              []bool
}

func (w *redeliveryWrites) add(c *cursor) {
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
		w.delays = append(w.delays, message.retryDelay.Seconds())
	}
	w.cursorPartitions, w.cursorGroups = append(w.cursorPartitions, c.partition), append(w.cursorGroups, c.group)
	w.settled, w.held = append(w.settled, c.redelivered.settled), append(w.held, c.redelivered.held)
	w.release = append(w.release, c.redelivered.release)
}

func (w *redeliveryWrites) queue(b *pgx.Batch) {
	if len(w.cursorPartitions) > 0 {
		b.Queue(sqlRedriveSettle, w.partitions, w.groups, w.seqs, w.failures, w.delays)
		b.Queue(sqlRedriveApply, w.cursorPartitions, w.cursorGroups, w.settled, w.held, w.release)
	}
}

func (w *redeliveryWrites) read(results pgx.BatchResults) ([]queue.Ready, error) {
	if len(w.cursorPartitions) == 0 {
		return nil, nil
	}
	if err := pipeline.Skip(results, "settling redriven messages"); err != nil {
		return nil, err
	}
	return wake.ReadReadyResult(results, "moving cursors past redriven messages")
}

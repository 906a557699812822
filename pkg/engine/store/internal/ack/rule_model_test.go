package ack

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// This file is a model in Go of the rules of acks. belfry.apply_acks contains the rules.
// TestTheRulesInSQLAreTheModel compares the function with the model.

// retryJitter is the largest fraction of a retry delay that randomness adds or removes.
const retryJitter = 0.2

// cursorState is the part of a cursor that the rules of acks read.
type cursorState struct {
	committed  int64
	skip       []int64
	failures   int32
	attempts   int32
	leaseID    string
	leaseLive  bool
	leaseEnd   int64
	retryLimit int64
	// retryBackoff is the retry delay after the first failure. 0 means no delay. random, in [0, 1),
	// determines the jitter.
	retryBackoff time.Duration
	random       float64
	// onExhausted is deadLetter, block or skip. blocked is set if the cursor is blocked.
	onExhausted string
	blocked     bool
}

// ackEntry is one acknowledgment of an existing message.
type ackEntry struct {
	// item is the index of the ack in the call.
	item   int
	seq    int64
	lease  string
	status queue.AckStatus
}

// ackVerdict is the answer to one ackEntry.
type ackVerdict struct {
	success bool
	err     string
	dead    bool
	// exhausted is set if a message without retries left became no dead letter.
	exhausted queue.Exhausted
	// park is set if a dead letter must be stored. failures is its number of failures.
	park     bool
	failures int32
}

// ackChange is the change of the cursor.
type ackChange struct {
	changed   bool
	committed int64
	skip      []int64
	failures  int32
	attempts  int32
	// release ends the lease. If no lease is live, it corrects ready_at.
	release bool
	done    int64
	// retryDelay is the time for which the first message is not delivered. 0 means no delay.
	retryDelay time.Duration
	// blocked is set if the cursor is blocked.
	blocked bool
}

// decideAck applies the acks of one call to one cursor. It is a pure function.
//
// The entries are judged in seq order:
//
//  1. A completed entry moves the cursor to its message, never back (I6).
//  2. The first failed entry with retries left, or the first entry with status retry, stops the
//     cursor and ends the lease. The message of this entry and all later messages are redelivered
//     (I5). So a completed entry after it is refused, because its message is delivered again.
//  3. The message of a dead entry, or of a failed entry without retries left, becomes a dead
//     letter. The cursor skips this message. The messages before it are not affected.
//  4. With onExhausted skip, a failed entry without retries left makes no dead letter. With block, it
//     stops the cursor like rule 2 and blocks it. While the cursor is blocked, entries of unfinished
//     messages are refused, except dead entries. A dead entry of the first message ends the block.
//
// The verdicts have the order of entries.
func decideAck(state cursorState, entries []ackEntry) (ackChange, []ackVerdict) {
	verdicts := make([]ackVerdict, len(entries))
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(entries[a].seq, entries[b].seq) })

	committed, failures := state.committed, state.failures
	skip := slices.Clone(state.skip)
	var failed, stopped, touched, blocks bool
	for _, i := range order {
		entry, verdict := entries[i], &verdicts[i]
		if entry.lease != "" && (!state.leaseLive || entry.lease != state.leaseID) {
			verdict.err = errLease
			continue
		}
		dead := entry.status == queue.AckDead ||
			entry.status == queue.AckFailed && entry.seq > committed && !stopped && int64(failures) >= state.retryLimit
		exhausted := dead && entry.status == queue.AckFailed
		skipped := slices.Contains(skip, entry.seq)
		switch {
		case entry.status == queue.AckUnknown:
			// No effect and, for compatibility, no reason.
		case state.blocked && entry.status != queue.AckDead && entry.seq > committed:
			verdict.err = errBlocked
		case exhausted && state.onExhausted == "block" && !skipped:
			verdict.success, verdict.exhausted = true, queue.ExhaustedBlocked
			failed, stopped, touched, blocks = true, true, true, true
		case dead:
			verdict.success, verdict.dead = true, true
			if exhausted && state.onExhausted == "skip" {
				verdict.dead, verdict.exhausted = false, queue.ExhaustedSkipped
			}
			if !skipped {
				verdict.park, verdict.failures = verdict.dead, failures
				if entry.seq > committed {
					skip = append(skip, entry.seq)
				}
			}
			touched = true
		case entry.seq <= committed:
			// The message is already done, so the repetition changes nothing.
			verdict.success = true
		case entry.status == queue.AckCompleted && stopped:
			verdict.err = errAfterFailure
		case entry.status == queue.AckCompleted:
			verdict.success = true
			committed, failures, touched = entry.seq, 0, true
		case entry.status == queue.AckFailed:
			verdict.success = true
			failed, stopped, touched = true, true, true
		case entry.status == queue.AckRetry:
			verdict.success = true
			stopped, touched = true, true
		}
	}
	if !touched {
		return ackChange{committed: committed, blocked: state.blocked}, verdicts
	}
	change := state.change(committed, failures, skip, failed, stopped)
	change.blocked = blocks || state.blocked && change.done == 0
	if change.blocked {
		change.retryDelay = 0
	}
	return change, verdicts
}

// change computes the counters after the entries were judged.
func (state cursorState) change(committed int64, failures int32, skip []int64, failed, stopped bool) ackChange {
	committed, skip = passOver(committed, skip)
	moved := committed > state.committed
	if moved {
		failures = 0
	}
	var retryDelay time.Duration
	if failed && state.leaseLive {
		failures++
		retryDelay = state.retryDelay(failures)
	}
	finished := state.leaseLive && committed >= state.leaseEnd
	attempts := state.attempts
	switch {
	case moved && committed >= state.leaseEnd:
		// All delivered messages are done, with a live lease or without.
		attempts = 0
	case moved:
		// The new first message was delivered once, in the batch.
		attempts = min(attempts, 1)
	}
	return ackChange{
		changed: true, committed: committed, skip: skip, failures: failures, attempts: attempts,
		release: stopped || finished || !state.leaseLive, done: committed - state.committed,
		retryDelay: retryDelay,
	}
}

// retryDelay returns the time for which a message is not delivered after a number of failures. The
// delay doubles with each failure, up to one hour. The jitter of 20 % spreads the redeliveries of
// messages that failed together.
func (state cursorState) retryDelay(failures int32) time.Duration {
	if state.retryBackoff <= 0 {
		return 0
	}
	longest := float64(max(time.Hour, state.retryBackoff))
	grown := math.Min(longest, float64(state.retryBackoff)*math.Pow(2, float64(failures-1)))
	return time.Duration(grown * (1 + retryJitter*(2*state.random-1)))
}

// passOver moves the cursor over dead letters that directly follow it, and removes dead letters up
// to the cursor from skip.
func passOver(committed int64, skip []int64) (int64, []int64) {
	slices.Sort(skip)
	kept := skip[:0]
	for _, seq := range skip {
		switch {
		case seq <= committed:
		case seq == committed+1:
			committed = seq
		default:
			kept = append(kept, seq)
		}
	}
	return committed, kept
}

// modelCursor is the state of a cursor during the calls of a flush.
type modelCursor struct {
	state  cursorState
	change ackChange
}

// follow adds the change of one call to the total change of the cursor, and to the state that the
// next call reads.
func (c *modelCursor) follow(change ackChange) {
	if !change.changed {
		return
	}
	before := c.change
	c.change = change
	c.change.done += before.done
	c.change.release = c.change.release || before.release
	if before.changed && before.committed == change.committed && change.retryDelay == 0 {
		c.change.retryDelay = before.retryDelay // the message with the delay is still the first message
	}
	c.state.committed, c.state.skip = change.committed, change.skip
	c.state.failures, c.state.attempts, c.state.blocked = change.failures, change.attempts, change.blocked
	if change.release {
		c.state.leaseLive, c.state.leaseID = false, ""
	}
}

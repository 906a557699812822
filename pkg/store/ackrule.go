package store

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// What an ack may be told (wire contract, section 3.3).
const (
	errMessageNotFound = "Message not found"
	errLease           = "Invalid or expired lease"
	errNoCursor        = "The consumer group has not popped from this partition"
	errAfterFailure    = "Not applied: an earlier message of this partition failed in the same call, so this one is redelivered with it"
	defaultDeadReason  = "Retries exhausted"
)

// restJitter is the share of a rest that randomness adds or takes away.
const restJitter = 0.2

// cursorState is what the rules of an ack see of a cursor.
type cursorState struct {
	committed  int64
	skip       []int64
	failures   int32
	attempts   int32
	leaseID    string
	leaseLive  bool
	leaseEnd   int64
	retryLimit int64
	// retryBackoff is how long the partition rests after a first failure; 0: not.
	// random, in [0, 1), makes that more or less.
	retryBackoff time.Duration
	random       float64
}

// ackEntry is one acknowledgment of an existing message.
type ackEntry struct {
	// item is its place in the call.
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
	// park: a dead letter must be stored, with attempts failures behind it.
	park     bool
	failures int32
}

// ackChange is what becomes of the cursor.
type ackChange struct {
	changed   bool
	committed int64
	skip      []int64
	failures  int32
	attempts  int32
	// release ends the lease, or puts ready_at right where none is live.
	release bool
	done    int64
	// rest is how long the partition rests, 0: not.
	rest time.Duration
}

// decideAck applies the acknowledgments of one call to one cursor. It is pure.
//
// The entries are taken in seq order. A completed one moves the cursor to it,
// never back (I6). The first failed one with retries left, or retry, stops the
// cursor and ends the lease: it and everything behind it is redelivered, so a
// completed one behind it is refused rather than lost or answered with a
// success that is taken back. A dead-lettered one is skipped wherever it
// stands, without taking the messages before it along. The verdicts are in the
// order of the entries given.
func decideAck(state cursorState, entries []ackEntry) (ackChange, []ackVerdict) {
	verdicts := make([]ackVerdict, len(entries))
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(entries[a].seq, entries[b].seq) })

	committed, failures := state.committed, state.failures
	skip := slices.Clone(state.skip)
	var failed, stopped, touched bool
	for _, i := range order {
		entry, verdict := entries[i], &verdicts[i]
		if entry.lease != "" && (!state.leaseLive || entry.lease != state.leaseID) {
			verdict.err = errLease
			continue
		}
		dead := entry.status == queue.AckDead ||
			entry.status == queue.AckFailed && entry.seq > committed && !stopped && int64(failures) >= state.retryLimit
		switch {
		case entry.status == queue.AckUnknown:
			// No effect and, as the contract has it, no reason.
		case dead:
			verdict.success, verdict.dead = true, true
			if !slices.Contains(skip, entry.seq) {
				verdict.park, verdict.failures = true, failures
				if entry.seq > committed {
					skip = append(skip, entry.seq)
				}
			}
			touched = true
		case entry.seq <= committed:
			// Done before: saying it again changes nothing.
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
		return ackChange{committed: committed}, verdicts
	}
	return state.change(committed, failures, skip, failed, stopped), verdicts
}

// change settles the counters once the entries are through.
func (state cursorState) change(committed int64, failures int32, skip []int64, failed, stopped bool) ackChange {
	committed, skip = passOver(committed, skip)
	moved := committed > state.committed
	if moved {
		failures = 0
	}
	var rest time.Duration
	if failed && state.leaseLive {
		failures++
		rest = state.rest(failures)
	}
	finished := state.leaseLive && committed >= state.leaseEnd
	attempts := state.attempts
	switch {
	case moved && committed >= state.leaseEnd:
		// Nothing of what was delivered is left, whether its lease lived or not.
		attempts = 0
	case moved:
		// What is first now was delivered with the rest of its batch.
		attempts = min(attempts, 1)
	}
	return ackChange{
		changed: true, committed: committed, skip: skip, failures: failures, attempts: attempts,
		release: stopped || finished || !state.leaseLive, done: committed - state.committed,
		rest: rest,
	}
}

// rest is how long the partition rests after so many failures of its first
// message: twice as long after each, up to queue.MaxRetryBackoff, and a fifth more
// or less so that what failed together does not come back together.
func (state cursorState) rest(failures int32) time.Duration {
	if state.retryBackoff <= 0 {
		return 0
	}
	longest := float64(max(queue.MaxRetryBackoff, state.retryBackoff))
	grown := math.Min(longest, float64(state.retryBackoff)*math.Pow(2, float64(failures-1)))
	return time.Duration(grown * (1 + restJitter*(2*state.random-1)))
}

// passOver moves the cursor over dead letters that directly follow it and drops
// those it has left behind.
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

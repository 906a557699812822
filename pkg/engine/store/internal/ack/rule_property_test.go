package ack

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	liveLease  = "0190f5fe-0000-7000-8000-000000000001"
	otherLease = "0190f5fe-0000-7000-8000-000000000002"
)

// highest limits the seqs. It is small, so that entries, dead letters and the ends of the lease
// often coincide.
const highest = 12

// drawState draws a state that the table may contain: skip is sorted, and its first seq is greater
// than committed + 1.
func drawState(t *rapid.T) cursorState {
	committed := rapid.Int64Range(0, highest-2).Draw(t, "committed")
	state := cursorState{
		committed: committed,
		failures:  rapid.Int32Range(0, 4).Draw(t, "failures"), attempts: rapid.Int32Range(0, 4).Draw(t, "attempts"),
		leaseLive: rapid.Bool().Draw(t, "live"), retryLimit: rapid.Int64Range(0, 4).Draw(t, "retry limit"),
		retryBackoff: rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Minute, 2 * time.Hour}).Draw(t, "delay"), random: 0.5,
	}
	state.onExhausted = rapid.SampledFrom([]string{"deadLetter", "block", "skip"}).Draw(t, "on exhausted")
	if rapid.IntRange(0, 3).Draw(t, "blocked") == 0 {
		state.blocked, state.leaseLive = true, false // a blocked cursor delivers no message of the log
	}
	if state.leaseLive || rapid.Bool().Draw(t, "expired") {
		state.leaseID, state.leaseEnd = liveLease, rapid.Int64Range(committed+1, highest).Draw(t, "lease end")
	}
	for seq := committed + 2; seq <= highest; seq++ {
		if rapid.IntRange(0, 3).Draw(t, "skipped") == 0 {
			state.skip = append(state.skip, seq)
		}
	}
	return state
}

func drawEntry(t *rapid.T, seq int64) ackEntry {
	return ackEntry{
		seq:    seq,
		lease:  rapid.SampledFrom([]string{"", liveLease, liveLease, otherLease}).Draw(t, "lease"),
		status: queue.AckStatus(rapid.IntRange(int(queue.AckUnknown), int(queue.AckRetry)).Draw(t, "status")),
	}
}

// drawEntries draws acks of different messages, in any order.
func drawEntries(t *rapid.T) []ackEntry {
	seqs := rapid.SliceOfNDistinct(rapid.Int64Range(1, highest), 0, highest, rapid.ID[int64]).Draw(t, "seqs")
	entries := make([]ackEntry, len(seqs))
	for i, seq := range seqs {
		entries[i] = drawEntry(t, seq)
		entries[i].item = i
	}
	return entries
}

// valid reports whether the lease of an entry is valid.
func valid(state cursorState, entry ackEntry) bool {
	return entry.lease == "" || state.leaseLive && entry.lease == state.leaseID
}

// skipAfter returns the skip of the cursor after the change.
func skipAfter(state cursorState, change ackChange) []int64 {
	if !change.changed {
		return state.skip
	}
	return change.skip
}

// after returns the state of the cursor after the change.
func after(state cursorState, change ackChange) cursorState {
	if !change.changed {
		return state
	}
	state.committed, state.skip = change.committed, change.skip
	state.failures, state.attempts, state.blocked = change.failures, change.attempts, change.blocked
	if change.release {
		state.leaseID, state.leaseLive, state.leaseEnd = "", false, 0
	}
	return state
}

func TestCursorOnlyMovesForward(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := drawState(t)
		entries := drawEntries(t)
		// The same message may occur twice, with contradicting statuses.
		for range rapid.IntRange(0, 3).Draw(t, "twice") {
			entries = append(entries, drawEntry(t, rapid.Int64Range(1, highest).Draw(t, "seq")))
		}
		change, verdicts := decideAck(state, entries)
		require.Len(t, verdicts, len(entries))
		require.GreaterOrEqual(t, change.committed, state.committed)
		if !change.changed {
			require.Equal(t, ackChange{committed: state.committed, blocked: state.blocked}, change)
			return
		}
		require.Equal(t, change.committed-state.committed, change.done)
		require.True(t, slices.IsSorted(change.skip))
		require.Len(t, slices.Compact(slices.Clone(change.skip)), len(change.skip), "no dead letter occurs twice")
		require.GreaterOrEqual(t, change.failures, int32(0))
		if change.done > 0 {
			require.LessOrEqual(t, change.attempts, int32(1), "the new first message was delivered once in its batch, or never")
		}
		require.True(t, change.retryDelay == 0 || change.failures > 0 && change.release, "only a counted failure delays a delivery")
		for _, seq := range change.skip {
			require.Greater(t, seq, change.committed+1, "the cursor has passed every dead letter that it reached")
		}
		for _, seq := range state.skip {
			require.True(t, seq <= change.committed || slices.Contains(change.skip, seq), "dead letter %d is forgotten", seq)
		}
	})
}

func TestCompletedMeansCommitted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state, entries := drawState(t), drawEntries(t)
		change, verdicts := decideAck(state, entries)
		for i, entry := range entries {
			if entry.status == queue.AckCompleted && verdicts[i].success {
				require.GreaterOrEqual(t, change.committed, entry.seq)
			}
			require.False(t, verdicts[i].success && verdicts[i].err != "", "a success needs no reason")
		}
	})
}

func TestTheCursorNeverPassesAFailedMessage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state, entries := drawState(t), drawEntries(t)
		change, verdicts := decideAck(state, entries)
		for i, entry := range entries {
			again := entry.status == queue.AckFailed || entry.status == queue.AckRetry
			// The message was already done or a dead letter, so it is not redelivered.
			before := entry.seq <= state.committed || slices.Contains(state.skip, entry.seq)
			if again && verdicts[i].success && !verdicts[i].dead && verdicts[i].exhausted != queue.ExhaustedSkipped && !before {
				require.Less(t, change.committed, entry.seq)
				require.NotContains(t, change.skip, entry.seq)
				require.True(t, change.changed && change.release, "the lease is released for the redelivery")
			}
		}
	})
}

func TestADeadMessageIsBeforeTheCursorOrSkipped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state, entries := drawState(t), drawEntries(t)
		change, verdicts := decideAck(state, entries)
		skip := skipAfter(state, change)
		for i, entry := range entries {
			if verdicts[i].dead {
				require.True(t, entry.seq <= change.committed || slices.Contains(skip, entry.seq), "message %d", entry.seq)
			}
			require.False(t, verdicts[i].park && !verdicts[i].dead)
			if entry.seq <= state.committed && entry.status != queue.AckDead {
				require.False(t, verdicts[i].dead, "a late failed ack of a completed message changes nothing")
			}
			require.False(t, verdicts[i].dead && !verdicts[i].success)
			if verdicts[i].exhausted != "" {
				require.Equal(t, queue.AckFailed, entry.status)
				require.False(t, verdicts[i].dead || verdicts[i].park)
			}
			if entry.status == queue.AckDead && valid(state, entry) {
				require.True(t, verdicts[i].dead)
			}
		}
		for _, seq := range skip {
			known := slices.Contains(state.skip, seq)
			parks := slices.ContainsFunc(entries, func(e ackEntry) bool {
				return e.seq == seq && (verdicts[e.item].park || verdicts[e.item].exhausted == queue.ExhaustedSkipped)
			})
			require.True(t, known || parks, "message %d is skipped without a dead letter", seq)
			if known {
				require.False(t, slices.ContainsFunc(entries, func(e ackEntry) bool { return e.seq == seq && verdicts[e.item].park }), "message %d is parked twice", seq)
			}
		}
	})
}

// A blocked cursor stays where it is, until a dead entry settles its first message.
func TestABlockHoldsTheCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state, entries := drawState(t), drawEntries(t)
		change, verdicts := decideAck(state, entries)
		if !state.blocked {
			require.True(t, !change.blocked || state.onExhausted == "block" && slices.ContainsFunc(verdicts, func(v ackVerdict) bool {
				return v.exhausted == queue.ExhaustedBlocked
			}))
			return
		}
		require.Equal(t, change.done == 0, change.blocked)
		for i, entry := range entries {
			if change.done > 0 && entry.seq == state.committed+1 {
				require.Equal(t, queue.AckDead, entry.status)
			}
			require.False(t, verdicts[i].success && entry.status != queue.AckDead && entry.seq > state.committed)
		}
	})
}

func TestFencedEntriesChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state, entries := drawState(t), drawEntries(t)
		change, verdicts := decideAck(state, entries)
		var through []ackEntry
		var left []ackVerdict
		for i, entry := range entries {
			if valid(state, entry) {
				require.NotEqual(t, errLease, verdicts[i].err)
				through, left = append(through, entry), append(left, verdicts[i])
				continue
			}
			require.Equal(t, ackVerdict{err: errLease}, verdicts[i])
		}
		alone, answers := decideAck(state, through)
		require.Equal(t, alone, change)
		require.ElementsMatch(t, answers, left)
	})
}

func TestCompletingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state, entries := drawState(t), drawEntries(t)
		for i := range entries {
			entries[i].status = queue.AckCompleted
		}
		change, _ := decideAck(state, entries)
		stored := after(state, change)
		again, verdicts := decideAck(stored, entries)
		require.Equal(t, ackChange{committed: stored.committed, blocked: stored.blocked}, again)
		for i, entry := range entries {
			require.Equal(t, valid(stored, entry) && (!stored.blocked || entry.seq <= stored.committed), verdicts[i].success)
		}
	})
}

func TestOrderWithinTheCallDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state, entries := drawState(t), drawEntries(t)
		change, verdicts := decideAck(state, entries)
		shuffled := rapid.Permutation(entries).Draw(t, "shuffled")
		other, answers := decideAck(state, shuffled)
		require.Equal(t, change, other)
		for i, entry := range shuffled {
			require.Equal(t, verdicts[entry.item], answers[i])
		}
	})
}

package ack

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	liveLease  = "0190f5fe-0000-7000-8000-000000000001"
	otherLease = "0190f5fe-0000-7000-8000-000000000002"
)

// leased is a cursor after a pop of the messages from..to.
func leased(from, to int64) cursorState {
	return cursorState{committed: from - 1, attempts: 1, leaseID: liveLease, leaseLive: true, leaseEnd: to, retryLimit: 3}
}

// with returns the state changed.
func (state cursorState) with(edit func(*cursorState)) cursorState {
	edit(&state)
	return state
}

// acks builds entries of one status under the lease of leased.
func acks(status queue.AckStatus, seqs ...int64) []ackEntry {
	var entries []ackEntry
	for i, seq := range seqs {
		entries = append(entries, ackEntry{item: i, seq: seq, lease: liveLease, status: status})
	}
	return entries
}

func completed(seqs ...int64) []ackEntry { return acks(queue.AckCompleted, seqs...) }
func failed(seqs ...int64) []ackEntry    { return acks(queue.AckFailed, seqs...) }
func dead(seqs ...int64) []ackEntry      { return acks(queue.AckDead, seqs...) }
func retry(seqs ...int64) []ackEntry     { return acks(queue.AckRetry, seqs...) }

func under(lease string, entries []ackEntry) []ackEntry {
	for i := range entries {
		entries[i].lease = lease
	}
	return entries
}

// times repeats a verdict.
func times(n int, v ackVerdict) []ackVerdict { return slices.Repeat([]ackVerdict{v}, n) }

var (
	good    = ackVerdict{success: true}
	fenced  = ackVerdict{err: errLease}
	refused = ackVerdict{err: errAfterFailure}
)

func parked(failures int32) ackVerdict {
	return ackVerdict{success: true, dead: true, park: true, failures: failures}
}

type ackCase struct {
	name     string
	state    cursorState
	entries  []ackEntry
	change   ackChange
	verdicts []ackVerdict
}

func runAckCases(t *testing.T, cases []ackCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			change, verdicts := decideAck(c.state, c.entries)
			if len(change.skip) == 0 {
				change.skip = nil
			}
			require.Equal(t, c.change, change)
			require.Equal(t, c.verdicts, verdicts)
		})
	}
}

// The scenarios of docs/compatibility.md#ack, with the same numbers.
func TestAckScenarios(t *testing.T) {
	t.Parallel()
	retried := func(n int32) cursorState { return leased(1, 5).with(func(s *cursorState) { s.failures = n }) }
	expired := leased(1, 5).with(func(s *cursorState) { s.leaseLive = false })
	free := leased(1, 5).with(func(s *cursorState) { s.leaseID, s.leaseLive, s.leaseEnd = "", false, 0 })
	runAckCases(t, []ackCase{
		{
			"1: all of the batch completed", leased(1, 5), completed(1, 2, 3, 4, 5),
			ackChange{changed: true, committed: 5, release: true, done: 5}, times(5, good),
		},
		{
			"2: only the last completed", leased(1, 5), completed(5),
			ackChange{changed: true, committed: 5, release: true, done: 5}, times(1, good),
		},
		{
			"3: the first two completed, the lease stays", leased(1, 5), completed(1, 2),
			ackChange{changed: true, committed: 2, attempts: 1, done: 2}, times(2, good),
		},
		{
			"4: the second failed in a call of its own", leased(1, 5).with(func(s *cursorState) { s.committed = 1 }), failed(2),
			ackChange{changed: true, committed: 1, failures: 1, attempts: 1, release: true}, times(1, good),
		},
		{
			"5: all failed counts once", leased(1, 5), failed(1, 2, 3, 4, 5),
			ackChange{changed: true, failures: 1, attempts: 1, release: true}, times(5, good),
		},
		{
			"5 again: the last retry", retried(2), failed(1, 2, 3, 4, 5),
			ackChange{changed: true, failures: 3, attempts: 1, release: true}, times(5, good),
		},
		{
			"6: all failed once more is dead, and the next batch starts at zero", retried(3), failed(1, 2, 3, 4, 5),
			ackChange{changed: true, committed: 5, release: true, done: 5}, times(5, parked(3)),
		},
		{
			"7: completed, failed, completed in one call", leased(1, 3), slices.Concat(completed(1), failed(2), completed(3)),
			ackChange{changed: true, committed: 1, failures: 1, attempts: 1, release: true, done: 1},
			[]ackVerdict{good, good, refused},
		},
		{
			"8: somebody else popped", leased(1, 5).with(func(s *cursorState) { s.leaseID = otherLease }), completed(1, 2),
			ackChange{}, times(2, fenced),
		},
		{
			"9: the lease expired and nobody popped", expired, completed(1, 2), ackChange{}, times(2, fenced),
		},
		{
			"9 again: the lease was cleared", free, failed(1), ackChange{}, times(1, fenced),
		},
		{
			"10: no lease named, somebody holds one", leased(1, 5).with(func(s *cursorState) { s.leaseID = otherLease }),
			under("", completed(1, 2)),
			ackChange{changed: true, committed: 2, attempts: 1, done: 2}, times(2, good),
		},
		{
			"11: the same message twice in one call", leased(1, 5), completed(2, 2),
			ackChange{changed: true, committed: 2, attempts: 1, done: 2}, times(2, good),
		},
		{
			"12: the cursor never goes back", leased(1, 5).with(func(s *cursorState) { s.committed = 4 }), completed(2),
			ackChange{committed: 4}, times(1, good),
		},
		{
			"14: the lease covers three here and others elsewhere", leased(1, 3), completed(1, 2, 3),
			ackChange{changed: true, committed: 3, release: true, done: 3}, times(3, good),
		},
		{
			"15: an ack after autoAck has nothing left to do", free.with(func(s *cursorState) { s.committed = 5 }),
			under("", completed(1, 2, 3, 4, 5)), ackChange{committed: 5}, times(5, good),
		},
		{
			"16: retry releases and counts nothing", retried(2), retry(3),
			ackChange{changed: true, failures: 2, attempts: 1, release: true}, times(1, good),
		},
	})
}

func TestAckRulesBeyondTheScenarios(t *testing.T) {
	t.Parallel()
	free := cursorState{retryLimit: 3}
	skipping := func(seqs ...int64) cursorState { return leased(1, 5).with(func(s *cursorState) { s.skip = seqs }) }
	atLimit := func(limit int64, failures int32) cursorState {
		return leased(1, 5).with(func(s *cursorState) { s.retryLimit, s.failures = limit, failures })
	}
	runAckCases(t, []ackCase{
		{"no entries", leased(1, 5), nil, ackChange{}, []ackVerdict{}},
		{"an unknown status has no effect and no reason", leased(1, 5), acks(queue.AckUnknown, 1), ackChange{}, times(1, ackVerdict{})},
		{
			"a dead one in the middle leaves what is before it", leased(1, 5), dead(3),
			ackChange{changed: true, skip: []int64{3}, attempts: 1}, times(1, parked(0)),
		},
		{
			"a dead one right behind the cursor moves it", leased(1, 5), dead(1),
			ackChange{changed: true, committed: 1, attempts: 1, done: 1}, times(1, parked(0)),
		},
		{
			"the cursor passes over dead ones it reaches", skipping(3, 4), completed(1, 2),
			ackChange{changed: true, committed: 4, attempts: 1, done: 4}, times(2, good),
		},
		{
			"passing over the last of the lease ends it", skipping(3, 4, 5), completed(2),
			ackChange{changed: true, committed: 5, release: true, done: 5}, times(1, good),
		},
		{
			"a completed one drops the dead ones it leaves behind", skipping(2, 5), completed(3),
			ackChange{changed: true, committed: 3, skip: []int64{5}, attempts: 1, done: 3}, times(1, good),
		},
		{
			"dead a second time is not parked twice", skipping(3), dead(3),
			ackChange{changed: true, skip: []int64{3}, attempts: 1}, times(1, ackVerdict{success: true, dead: true}),
		},
		{
			"no retries at all: the first failure is dead", atLimit(0, 0), failed(1),
			ackChange{changed: true, committed: 1, attempts: 1, done: 1}, times(1, parked(0)),
		},
		{
			"out of retries in the middle", atLimit(1, 1), failed(2),
			ackChange{changed: true, skip: []int64{2}, failures: 1, attempts: 1}, times(1, parked(1)),
		},
		{
			"progress gives the rest its retries back", atLimit(1, 1), slices.Concat(completed(1), failed(2)),
			ackChange{changed: true, committed: 1, failures: 1, attempts: 1, release: true, done: 1}, times(2, good),
		},
		{
			"behind a retry a failure is redelivered, not dead, and counts", atLimit(0, 0), slices.Concat(retry(1), failed(2)),
			ackChange{changed: true, failures: 1, attempts: 1, release: true}, times(2, good),
		},
		{
			"a dead one behind a failure is dead all the same", leased(1, 5), slices.Concat(failed(1), dead(2), completed(3)),
			ackChange{changed: true, skip: []int64{2}, failures: 1, attempts: 1, release: true},
			[]ackVerdict{good, parked(0), refused},
		},
		{
			"a failure without a live lease counts nothing", free, under("", failed(1)),
			ackChange{changed: true, release: true}, times(1, good),
		},
		{
			"completed without a live lease moves the cursor", free, under("", completed(2)),
			ackChange{changed: true, committed: 2, release: true, done: 2}, times(1, good),
		},
		{
			"a foreign entry does not spoil the others", leased(1, 5),
			slices.Concat(completed(1), under(otherLease, failed(2)), completed(3)),
			ackChange{changed: true, committed: 3, attempts: 1, done: 3}, []ackVerdict{good, fenced, good},
		},
		{
			"many deliveries count as one for the next message",
			leased(1, 5).with(func(s *cursorState) { s.attempts, s.failures = 7, 2 }), completed(1),
			ackChange{changed: true, committed: 1, attempts: 1, done: 1}, times(1, good),
		},
		{
			"the verdicts keep the order of the call", leased(1, 5), slices.Concat(completed(4), failed(2), completed(1)),
			ackChange{changed: true, committed: 1, failures: 1, attempts: 1, release: true, done: 1},
			[]ackVerdict{refused, good, good},
		},
		{
			"completed beyond the lease ends it", leased(1, 5), completed(9),
			ackChange{changed: true, committed: 9, release: true, done: 9}, times(1, good),
		},
	})
}

func TestDecideAckLeavesItsArgumentsAlone(t *testing.T) {
	t.Parallel()
	skip := append(make([]int64, 0, 8), 9, 3)
	entries := slices.Concat(completed(4), dead(7), failed(2))
	state, before := leased(1, 9).with(func(s *cursorState) { s.skip = skip }), slices.Clone(entries)
	decideAck(state, entries)
	require.Equal(t, []int64{9, 3}, skip)
	require.Equal(t, []int64{9, 3, 0, 0}, skip[:4], "nothing is written after its end either")
	require.Equal(t, before, entries)
}

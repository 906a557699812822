package ack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patient is a cursor under a lease in a queue with a retryDelay.
func patient(failures int32) cursorState {
	return leased(1, 5).with(func(s *cursorState) {
		s.retryBackoff, s.random, s.failures, s.retryLimit = time.Second, 0.5, failures, 100
	})
}

func TestARetryDelayDoublesWithEachFailure(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int32]time.Duration{
		0: time.Second, 1: 2 * time.Second, 2: 4 * time.Second, 11: 2048 * time.Second, 12: time.Hour, 99: time.Hour,
	} {
		change, _ := decideAck(patient(failures), failed(1))
		require.Equal(t, want, change.retryDelay, "%d failures before", failures)
	}
	longer := patient(3).with(func(s *cursorState) { s.retryBackoff = 2 * time.Hour })
	change, _ := decideAck(longer, failed(1))
	require.Equal(t, 2*time.Hour, change.retryDelay, "longer from the start: as it was asked for")
}

func TestARetryDelayVariesByAFifth(t *testing.T) {
	t.Parallel()
	for random, want := range map[float64]time.Duration{0: 800 * time.Millisecond, 0.25: 900 * time.Millisecond, 0.75: 1100 * time.Millisecond} {
		change, _ := decideAck(patient(0).with(func(s *cursorState) { s.random = random }), failed(1))
		require.Equal(t, want, change.retryDelay.Truncate(time.Millisecond))
	}
}

// Only a counted failure that leads to a redelivery delays the next delivery.
func TestOnlyACountedFailureDelaysTheNextDelivery(t *testing.T) {
	t.Parallel()
	none := patient(0).with(func(s *cursorState) { s.retryBackoff = 0 })
	exhausted := patient(3).with(func(s *cursorState) { s.retryLimit = 3 })
	expired := patient(0).with(func(s *cursorState) { s.leaseLive = false })
	for name, c := range map[string]struct {
		state   cursorState
		entries []ackEntry
	}{
		"no retryDelay":      {none, failed(1)},
		"retry":              {patient(0), retry(1)},
		"completed":          {patient(0), completed(1, 2)},
		"dead letter":        {patient(0), dead(1)},
		"retries exhausted":  {exhausted, failed(1)},
		"the lease has gone": {expired, under("", failed(1))},
	} {
		change, _ := decideAck(c.state, c.entries)
		require.Zero(t, change.retryDelay, name)
	}
	// Behind what was completed a new message is first: it has failed once.
	change, _ := decideAck(patient(7), append(completed(1), failed(2)...))
	require.Equal(t, time.Second, change.retryDelay)
}

// Calls of one flush follow each other: a retry delay ends when a later call moves the
// cursor, and not before.
func TestARetryDelayLastsUntilTheCursorMoves(t *testing.T) {
	t.Parallel()
	flush := func(calls ...[]ackEntry) ackChange {
		c := &modelCursor{state: patient(0)}
		for _, entries := range calls {
			change, _ := decideAck(c.state, entries)
			c.follow(change)
		}
		return c.change
	}
	require.Equal(t, time.Second, flush(failed(1)).retryDelay)
	require.Equal(t, time.Second, flush(failed(1), under("", retry(1))).retryDelay)
	require.Equal(t, time.Second, flush(failed(1), under("", failed(1))).retryDelay)
	require.Zero(t, flush(failed(1), under("", completed(1))).retryDelay)
	require.Equal(t, time.Second, flush(completed(1), failed(2)).retryDelay)
}

package load

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// filled returns a ledger with two lanes in one partition. The first lane has n stored messages.
func filled(n int) (l *Ledger, began time.Time) {
	began = time.Now()
	l = NewLedger(LedgerConfig{Lanes: []Lane{{"q", "p0"}, {"q", "p0"}}, Groups: 1, Lease: time.Minute, StuckAfter: 2 * time.Hour})
	l.answered(begun(l, n, began), pushStored, began.Add(time.Millisecond))
	return l, began
}

// begun begins a push of n messages to the first lane.
func begun(l *Ledger, n int, start time.Time) []Ref {
	refs := make([]Ref, n)
	l.begin(refs, start)
	return refs
}

// got returns a delivery of messages of the first lane at a given time.
func got(at time.Time, numbers ...int) *Delivery {
	d := &Delivery{Sent: at, At: at}
	for _, n := range numbers {
		d.Messages = append(d.Messages, Message{Partition: "p0", Data: Payload{1, n + 1}})
	}
	return d
}

func yes(int) bool { return true }

func no(int) bool { return false }

// ledgerCase calls do with a ledger that has three stored messages. want has the expected counts except Pushed.
type ledgerCase struct {
	do   func(l *Ledger, at time.Time)
	want Counts
}

func (c ledgerCase) check(t *testing.T, name string) {
	t.Helper()
	l, began := filled(3)
	c.do(l, began.Add(time.Second))
	c.want.Pushed = 3
	require.Equal(t, c.want, l.Counts(), name)
}

func TestLedgerCountsFaultsWithLeases(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]ledgerCase{
		"every message is delivered": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 1, 2), nil)
		}, Counts{Delivered: 3}},
		"one message is missing": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 2), nil)
		}, Counts{Delivered: 2, Lost: 1}},
		"messages in the wrong order in one answer": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 1, 0, 2), nil)
		}, Counts{Delivered: 2, Disordered: 1, Lost: 1}},
		"messages in the wrong order in two answers": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 1, 2), nil)
			l.delivered("q", 0, got(at, 0), nil)
		}, Counts{Delivered: 3, Disordered: 1}},
		"a message twice in one answer": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 0, 1, 2), nil)
		}, Counts{Delivered: 3, Duplicates: 1}},
		"a message again while leased": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 1, 2), nil)
			l.delivered("q", 0, got(at.Add(59*time.Second), 0), nil)
		}, Counts{Delivered: 3, Duplicates: 1}},
		"messages again after the lease ends": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 1), nil)
			l.delivered("q", 0, got(at.Add(time.Minute), 0, 1, 2), nil)
		}, Counts{Delivered: 3, Redelivered: 2}},
		"messages again after a failed ack": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 1, 2), nil)
			l.acked(0, got(at, 0, 1, 2), no)
			l.delivered("q", 0, got(at, 0, 1, 2), nil)
		}, Counts{Delivered: 3, Redelivered: 3, LostLeases: 3}},
		"a message again after the ack": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 1, 2), nil)
			l.acked(0, got(at, 0, 1, 2), yes)
			l.delivered("q", 0, got(at.Add(time.Hour), 2), nil)
		}, Counts{Delivered: 3, Duplicates: 1}},
		"a late refusal of an ack changes nothing": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 1, 2), nil)
			l.acked(0, got(at, 0, 1, 2), yes)
			l.acked(0, got(at, 0, 1, 2), no)
			l.delivered("q", 0, got(at, 0), nil)
		}, Counts{Delivered: 3, Duplicates: 1}},
	} {
		c.check(t, name)
	}
}

func TestLedgerCountsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]ledgerCase{
		"autoAck, two consumers": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 1, 2), map[int]int{})
			l.delivered("q", 0, got(at, 0), map[int]int{})
		}, Counts{Delivered: 3}},
		"autoAck, one consumer": {func(l *Ledger, at time.Time) {
			own := map[int]int{}
			l.delivered("q", 0, got(at, 1, 2), own)
			l.delivered("q", 0, got(at, 0), own)
		}, Counts{Delivered: 3, Disordered: 1}},
		"autoAck, twice": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 0, 1, 2), map[int]int{})
			l.delivered("q", 0, got(at.Add(time.Hour), 0), map[int]int{})
		}, Counts{Delivered: 3, Duplicates: 1}},
		"never pushed": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, -1, 0, 1, 2, 3), nil)
		}, Counts{Delivered: 3, Unexpected: 2}},
		"after StuckAfter": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at.Add(3*time.Hour), 0, 1, 2), nil)
		}, Counts{Delivered: 3, Stuck: 3}},
		"a delivery from another queue": {func(l *Ledger, at time.Time) {
			l.delivered("other", 0, got(at, 0), nil)
		}, Counts{Unexpected: 1, Lost: 3}},
		"the first message comes last": {func(l *Ledger, at time.Time) {
			l.delivered("q", 0, got(at, 1), nil)
			l.delivered("q", 0, got(at, 2), nil)
			l.delivered("q", 0, got(at, 0), nil)
		}, Counts{Delivered: 3, Disordered: 1}},
		"a message from another partition": {func(l *Ledger, at time.Time) {
			d := got(at, 0, 1, 2)
			d.Messages[1].Partition = "p1"
			l.delivered("q", 0, d, nil)
		}, Counts{Delivered: 2, Unexpected: 1, Lost: 1}},
	} {
		c.check(t, name)
	}
}

func TestLedgerCountsPushesByTheirAnswer(t *testing.T) {
	t.Parallel()
	l, began := filled(1)
	lost := begun(l, 1, began)
	l.answered(lost, pushUnclear, began)
	wrong := begun(l, 1, began)
	l.answered(wrong, pushRefused, began)
	l.answered(begun(l, 1, began), pushStored, began)
	// The server may deliver the message of a push without an answer at any time, or never.
	l.delivered("q", 0, got(began, 0, 3), nil)
	l.delivered("q", 0, got(began, 1), nil)
	require.Equal(t, Counts{Pushed: 2, Unclear: 1, Refused: 1, Delivered: 3}, l.Counts())
	l.delivered("q", 0, got(began, 2), nil)
	require.Equal(t, 1, l.Counts().Unexpected, "the delivery of a refused push is unexpected")
}

func TestLedgerTimesDeliveries(t *testing.T) {
	t.Parallel()
	began := time.Now()
	m := NewMeter()
	m.Measure(began, time.Time{})
	l := NewLedger(LedgerConfig{Lanes: []Lane{{"q", "p0"}}, Groups: 2, Lease: time.Minute, Meter: m})
	refs := begun(l, 2, began)
	// The first group receives one message before the answer to the push.
	l.delivered("q", 0, got(began.Add(2*time.Millisecond), 0), nil)
	l.answered(refs, pushStored, began.Add(5*time.Millisecond))
	l.delivered("q", 0, got(began.Add(9*time.Millisecond), 1), nil)
	l.delivered("q", 1, got(began.Add(15*time.Millisecond), 0, 1), nil)
	require.Zero(t, l.Counts().Lost)
	latencies := m.Latencies()
	require.Equal(t, []string{TimeFromStart, TimeFromAnswer}, []string{latencies[0].Of, latencies[1].Of})
	require.Equal(t, 4, latencies[0].Count)
	require.Equal(t, 4, latencies[1].Count)
	require.InDelta(t, 9, latencies[0].P50, 0.01)
	require.InDelta(t, 4, latencies[1].P50, 0.01)
	require.InDelta(t, 15, latencies[0].Max, 0.02)
	require.InDelta(t, 10, latencies[1].Max, 0.02)
}

func TestWaitDrainedWaitsWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := filled(4)
		go func() {
			for n := range 3 {
				time.Sleep(8 * time.Second)
				l.delivered("q", 0, got(time.Now(), n), nil)
			}
		}()
		all, err := l.WaitDrained(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.False(t, all, "the last message is missing")
		require.Equal(t, 34*time.Second, time.Since(began))
		below, err := l.waitBelow(t.Context(), 1, 0)
		require.NoError(t, err)
		require.True(t, below)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.waitBelow(ctx, 0, math.MaxInt64)
		require.Error(t, err)
	})
}

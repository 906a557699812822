package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// book is a ledger of two lanes in one partition, with n messages stored in the
// first.
func book(n int) (l *ledger, began time.Time) {
	began = time.Now()
	l = newLedger(2, 1, 1, time.Minute, newMeter())
	l.stored(l.begin(nil, make([]int, n), began), began.Add(time.Millisecond))
	return l, began
}

// got makes a delivery of messages of the first lane.
func got(at time.Time, numbers ...int) *delivery {
	d := &delivery{sent: at, at: at}
	for _, n := range numbers {
		d.Messages = append(d.Messages, message{Partition: "p0", Data: number{1, n + 1}})
	}
	return d
}

func yes(int) bool { return true }

func no(int) bool { return false }

func TestLedgerCountsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(l *ledger, at time.Time)
		want Count
	}{
		"all come": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 1, 2), nil)
		}, Count{Delivered: 3}},
		"one is missing": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 2), nil)
		}, Count{Delivered: 2, Lost: 1}},
		"in the wrong order in one answer": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 1, 0, 2), nil)
		}, Count{Delivered: 2, Disordered: 1, Lost: 1}},
		"in the wrong order in two": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 1, 2), nil)
			l.took(0, got(at, 0), nil)
		}, Count{Delivered: 3, Disordered: 1}},
		"twice in one answer": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 0, 1, 2), nil)
		}, Count{Delivered: 3, Duplicates: 1}},
		"again while leased": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 1, 2), nil)
			l.took(0, got(at.Add(59*time.Second), 0), nil)
		}, Count{Delivered: 3, Duplicates: 1}},
		"again after the lease": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 1), nil)
			l.took(0, got(at.Add(time.Minute), 0, 1, 2), nil)
		}, Count{Delivered: 3, Redelivered: 2}},
		"again after a failed ack": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 1, 2), nil)
			l.acked(0, got(at, 0, 1, 2), no)
			l.took(0, got(at, 0, 1, 2), nil)
		}, Count{Delivered: 3, Redelivered: 3, LostLeases: 3}},
		"again after the ack": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 1, 2), nil)
			l.acked(0, got(at, 0, 1, 2), yes)
			l.took(0, got(at.Add(time.Hour), 2), nil)
		}, Count{Delivered: 3, Duplicates: 1}},
		"a late refusal changes nothing": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 1, 2), nil)
			l.acked(0, got(at, 0, 1, 2), yes)
			l.acked(0, got(at, 0, 1, 2), no)
			l.took(0, got(at, 0), nil)
		}, Count{Delivered: 3, Duplicates: 1}},
		"autoAck, two consumers": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 1, 2), map[int]int{})
			l.took(0, got(at, 0), map[int]int{})
		}, Count{Delivered: 3}},
		"autoAck, one consumer": {func(l *ledger, at time.Time) {
			own := map[int]int{}
			l.took(0, got(at, 1, 2), own)
			l.took(0, got(at, 0), own)
		}, Count{Delivered: 3, Disordered: 1}},
		"autoAck, twice": {func(l *ledger, at time.Time) {
			l.took(0, got(at, 0, 1, 2), map[int]int{})
			l.took(0, got(at.Add(time.Hour), 0), map[int]int{})
		}, Count{Delivered: 3, Duplicates: 1}},
		"never pushed": {func(l *ledger, at time.Time) {
			l.took(0, got(at, -1, 0, 1, 2, 3), nil)
		}, Count{Delivered: 3, Unexpected: 2}},
		"in another partition": {func(l *ledger, at time.Time) {
			d := got(at, 0, 1, 2)
			d.Messages[1].Partition = "p1"
			l.took(0, d, nil)
		}, Count{Delivered: 2, Unexpected: 1, Lost: 1}},
	} {
		l, began := book(3)
		c.do(l, began.Add(time.Second))
		c.want.Pushed = 3
		require.Equal(t, c.want, l.counts(), name)
	}
}

func TestLedgerJudgesPushesByTheirAnswer(t *testing.T) {
	t.Parallel()
	l, began := book(1)
	lost := l.begin(nil, []int{0}, began)
	l.failed(lost, unclear)
	wrong := l.begin(nil, []int{0}, began)
	l.failed(wrong, refused)
	l.stored(l.begin(nil, []int{0}, began), began)
	// The unclear one may come at any time, or never.
	l.took(0, got(began, 0, 3), nil)
	l.took(0, got(began, 1), nil)
	require.Equal(t, Count{Pushed: 2, Unclear: 1, Refused: 1, Delivered: 3}, l.counts())
	l.took(0, got(began, 2), nil)
	require.Equal(t, 1, l.counts().Unexpected, "it was refused")
}

func TestLedgerTimesDeliveries(t *testing.T) {
	t.Parallel()
	began := time.Now()
	m := newMeter()
	m.frame(began, time.Time{})
	l := newLedger(1, 1, 2, time.Minute, m)
	l.timed = true
	refs := l.begin(nil, []int{0, 0}, began)
	// To the first group one comes before the push is answered.
	l.took(0, got(began.Add(2*time.Millisecond), 0), nil)
	l.stored(refs, began.Add(5*time.Millisecond))
	l.took(0, got(began.Add(9*time.Millisecond), 1), nil)
	l.took(1, got(began.Add(15*time.Millisecond), 0, 1), nil)
	require.Zero(t, l.counts().Lost)
	latencies := m.latencies()
	require.Equal(t, []string{timeFromStart, timeFromAnswer}, []string{latencies[0].Of, latencies[1].Of})
	require.Equal(t, 4, latencies[0].Count)
	require.Equal(t, 4, latencies[1].Count)
	require.InDelta(t, 9, latencies[0].P50, 0.01)
	require.InDelta(t, 4, latencies[1].P50, 0.01)
	require.InDelta(t, 15, latencies[0].Max, 0.02)
	require.InDelta(t, 10, latencies[1].Max, 0.02)
}

func TestDrainedWaitsAsLongAsSomethingComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := book(4)
		go func() {
			for n := range 3 {
				time.Sleep(8 * time.Second)
				l.took(0, got(time.Now(), n), nil)
			}
		}()
		all, err := l.drained(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.False(t, all, "the last one never came")
		require.Equal(t, 34*time.Second, time.Since(began))
		require.NoError(t, l.below(t.Context(), 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.below(ctx, 0))
	})
}

func TestOpenLoopStartsAtFixedInstants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		// 100 messages a second in tens: a push every 100 ms.
		p := newPace(start, start.Add(time.Second), 100, 10)
		var due []time.Duration
		for {
			at, ok := p.next(t.Context())
			if !ok {
				break
			}
			require.False(t, time.Now().Before(at), "nothing starts too early")
			due = append(due, at.Sub(start))
			if len(due) == 3 {
				time.Sleep(550 * time.Millisecond) // a server that stands still
			}
		}
		require.Len(t, due, 10)
		for k, at := range due {
			require.Equal(t, time.Duration(k)*100*time.Millisecond, at, "late is no reason to move the instants")
		}
		require.Equal(t, time.Second, time.Since(start).Round(100*time.Millisecond)+100*time.Millisecond)
		p.missed(p.end, func(time.Time) { t.Error("none was missed") })
	})
}

func TestOpenLoopTellsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPace(start, start.Add(time.Second), 10, 1)
		for range 3 {
			_, ok := p.next(t.Context())
			require.True(t, ok)
			time.Sleep(350 * time.Millisecond)
		}
		_, ok := p.next(t.Context())
		require.False(t, ok)
		var missed []time.Duration
		p.missed(p.end, func(due time.Time) { missed = append(missed, due.Sub(start)) })
		require.Len(t, missed, 7)
		require.Equal(t, 300*time.Millisecond, missed[0])
		require.Equal(t, 900*time.Millisecond, missed[6])
	})
}

func TestClosedLoopStartsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPace(time.Now(), time.Now().Add(time.Second), 0, 10)
		at, ok := p.next(t.Context())
		require.True(t, ok)
		require.Equal(t, time.Now(), at)
		time.Sleep(time.Second)
		_, ok = p.next(t.Context())
		require.False(t, ok)
		p.missed(p.end, func(time.Time) { t.Error("a closed loop misses nothing") })
	})
}

func TestPayloadHasTheLengthAskedFor(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 20, 31, 32, 33, 256, 200_000} {
		payload := appendPayload([]byte("x"), 3, 41, size)[1:]
		require.Regexp(t, `^\{"lane":4,"n":42(,"pad":"[-\w]*")?\}$`, string(payload))
		if size >= 32 {
			require.Len(t, payload, size)
		}
	}
}

package load

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenLoopStartsAtFixedTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		// 100 messages per second with 10 messages per push are one push every 100 ms.
		p := NewPacer(start, start.Add(time.Second), 100, 10)
		var due []time.Duration
		for {
			at, ok := p.Next(t.Context())
			if !ok {
				break
			}
			require.False(t, time.Now().Before(at), "no push starts before its planned time")
			due = append(due, at.Sub(start))
			if len(due) == 3 {
				time.Sleep(550 * time.Millisecond) // simulates a server that stalls
			}
		}
		require.Len(t, due, 10)
		for k, at := range due {
			require.Equal(t, time.Duration(k)*100*time.Millisecond, at, "a stall does not change the planned starts")
		}
		require.Equal(t, time.Second, time.Since(start).Round(100*time.Millisecond)+100*time.Millisecond)
		p.Unsent(p.end, func(time.Time) { t.Error("Unsent reports a push although each push was sent") })
	})
}

func TestOpenLoopReportsUnsentPushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := NewPacer(start, start.Add(time.Second), 10, 1)
		for range 3 {
			_, ok := p.Next(t.Context())
			require.True(t, ok)
			time.Sleep(350 * time.Millisecond)
		}
		_, ok := p.Next(t.Context())
		require.False(t, ok)
		var unsent []time.Duration
		p.Unsent(p.end, func(due time.Time) { unsent = append(unsent, due.Sub(start)) })
		require.Len(t, unsent, 7)
		require.Equal(t, 300*time.Millisecond, unsent[0])
		require.Equal(t, 900*time.Millisecond, unsent[6])
	})
}

func TestClosedLoopStartsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPacer(time.Now(), time.Now().Add(time.Second), 0, 10)
		at, ok := p.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, time.Now(), at)
		time.Sleep(time.Second)
		_, ok = p.Next(t.Context())
		require.False(t, ok)
		p.Unsent(p.end, func(time.Time) { t.Error("Unsent reports a push of a closed loop") })
	})
}

func TestPayloadHasTheRequestedLength(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 20, 31, 32, 33, 256, 200_000} {
		payload := AppendPayload([]byte("x"), Ref{3, 41}, size)[1:]
		require.Regexp(t, `^\{"lane":4,"n":42(,"pad":"[-\w]*")?\}$`, string(payload))
		if size >= 32 {
			require.Len(t, payload, size)
		}
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	times := NewTimes()
	require.Zero(t, times.Quantile(0.5))
	for n := range 100 {
		times.Add(time.Duration(100-n) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.01: 1, 0.5: 50, 0.95: 95, 0.99: 99, 1: 100} {
		require.Equal(t, want*time.Microsecond, times.Quantile(q), "%g", q)
	}
	for n := range 100 {
		times.Add(-time.Duration(n+1) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0: -100, 0.25: -51, 0.5: -1, 0.75: 50, 1: 100} {
		require.Equal(t, want*time.Microsecond, times.Quantile(q), "%g", q)
	}
	require.Zero(t, times.Latency("x").P50, "a negative time counts as 0")
	single := NewTimes()
	single.Add(7 * time.Microsecond)
	require.Equal(t, 7*time.Microsecond, single.Quantile(0.01))
}

func TestMeterReportsFailures(t *testing.T) {
	t.Parallel()
	m := NewMeter()
	m.fail(unreadable("first"))
	m.fail(unreadable("second"))
	m.fail(errors.New("third"))
	counts, examples := m.Errors()
	require.Equal(t, map[string]int{"other": 1, "unreadable": 2}, counts)
	require.Equal(t, map[string]string{"other": "third", "unreadable": "first"}, examples)
}

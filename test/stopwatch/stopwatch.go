// Package stopwatch checks limits in real time on machines that pause or are busy. Beside the test, it measures how much
// time the machine took away from this process. A limit becomes longer by a multiple of that, and by nothing on a machine
// that is free:
//
//	watch := stopwatch.Start(t)
//	push(t, "m1")
//	<-popped // without a limit of its own, or with a far longer one
//	watch.Within(t, time.Second, "a waiting pop is woken")
//
// A test that needs something to happen before a lease ends, or another instant, must not use it: that instant comes
// during a pause, too. Such a test needs a lease that does not end, a clock of its own (testing/synctest), or an instant
// in the database that it moves itself.
package stopwatch

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// step is the time between two looks at the clock.
	step = 5 * time.Millisecond
	// usual is how late a look may be on a machine that is free.
	usual = 2 * time.Millisecond
	// share is what a limit becomes longer by, for a second that was lost. Work that was started by several programs, one
	// after the other, loses the time of each.
	share = 4
)

// meter measures the lost time of this process while at least one test needs it.
type meter struct {
	mu    sync.Mutex
	users int
	lost  time.Duration
	last  time.Time // of the latest look
	stop  chan struct{}
	done  chan struct{}
}

var process meter

// Stopwatch is the time since Start.
type Stopwatch struct {
	began time.Time
	lost  time.Duration // before Start
}

// Start starts a stopwatch. It runs until the end of the test.
func Start(t testing.TB) *Stopwatch {
	t.Helper()
	process.enter()
	t.Cleanup(process.leave)
	return &Stopwatch{began: time.Now(), lost: process.total()}
}

// Elapsed returns the time since Start.
func (s *Stopwatch) Elapsed() time.Duration { return time.Since(s.began) }

// Allowed returns what a limit is on this machine, if it counts from Start until now.
func (s *Stopwatch) Allowed(limit time.Duration) time.Duration {
	return limit + share*(process.total()-s.lost)
}

// Within fails the test if more time than the limit has passed since Start.
func (s *Stopwatch) Within(t testing.TB, limit time.Duration, what string) {
	t.Helper()
	elapsed := s.Elapsed()
	require.LessOrEqualf(t, elapsed, s.Allowed(limit), "%s: the limit is %s", what, limit)
}

func (m *meter) enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users++; m.users == 1 {
		m.last, m.stop, m.done = time.Now(), make(chan struct{}), make(chan struct{})
		go m.run(m.stop, m.done)
	}
}

// leave ends the measuring with the last user, and waits for that: the goroutine is not a leak of the test.
func (m *meter) leave() {
	m.mu.Lock()
	stop, done := m.stop, m.done
	m.users--
	last := m.users == 0
	m.mu.Unlock()
	if last {
		close(stop)
		<-done
	}
}

func (m *meter) run(stop, done chan struct{}) {
	defer close(done)
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			m.total()
		}
	}
}

// total returns the lost time so far. It counts a pause that has not ended yet, because the goroutine of the test may be
// the first that runs after it.
func (m *meter) total() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.lost += max(0, now.Sub(m.last)-step-usual)
	m.last = now
	return m.lost
}

// Package stopwatch checks time limits of tests on machines that pause or are busy. During the test it measures how long
// this process could not run (lost time). A limit grows by 4 times the lost time. On an idle machine a limit does not grow:
//
//	watch := stopwatch.Start(t)
//	push(t, "m1")
//	<-popped // without its own limit, or with a much longer one
//	watch.Within(t, time.Second, "a waiting pop is woken")
//
// Do not use this package if an event must happen before a deadline in the database, such as the end of a lease. Such a
// deadline also passes during a pause of the machine. Use a lease that does not end, a virtual clock (testing/synctest), or
// a deadline in the database that the test itself moves.
package stopwatch

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// step is the time between two readings of the clock.
	step = 5 * time.Millisecond
	// usual is how late a reading may be on an idle machine.
	usual = 2 * time.Millisecond
	// share is the factor by which lost time extends a limit. If several programs work one after the other, each of them
	// can lose this time.
	share = 4
)

// meter measures the lost time of this process while at least one test needs it.
type meter struct {
	mu    sync.Mutex
	users int
	lost  time.Duration
	last  time.Time // the latest reading of the clock
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

// Allowed returns the extended limit for the time from Start until now.
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

// leave stops the measuring goroutine when the last user leaves, and waits for its end. So the goroutine is not reported as
// a leak.
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

// total returns the lost time so far. It includes a pause that has just ended, because the goroutine of the test may run
// before the measuring goroutine.
func (m *meter) total() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.lost += max(0, now.Sub(m.last)-step-usual)
	m.last = now
	return m.lost
}

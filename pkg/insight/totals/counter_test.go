package totals

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// counting is a Counter whose passes take a while, and count the changes before them.
type counting struct {
	*Counter
	passes, state atomic.Int64
	takes         time.Duration
	err           error
}

func newCounting(takes time.Duration) *counting {
	c := &counting{takes: takes}
	c.Counter = newCounter(func(context.Context) (*Snapshot, error) {
		c.passes.Add(1)
		s := &Snapshot{At: time.Now(), Queues: []Queue{{Name: "q", DeadLetters: c.state.Load()}}}
		<-time.After(c.takes)
		return s, c.err
	})
	return c
}

// read returns the state that a reader sees, and how long the read took.
func (c *counting) read(t *testing.T) (state int64, took time.Duration) {
	t.Helper()
	begin := time.Now()
	s, err := c.Read(t.Context())
	require.NoError(t, err)
	return s.Queues[0].DeadLetters, time.Since(begin)
}

// Any number of readers cost one pass, and after it a pause of three times what it took.
func TestReadersShareAPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(time.Second)
		var readers sync.WaitGroup
		for range 100 {
			readers.Go(func() { _, _ = c.read(t) })
		}
		readers.Wait()
		require.EqualValues(t, 1, c.passes.Load())
		c.state.Store(1)
		begin := time.Now()
		for time.Since(begin) < time.Minute {
			_, took := c.read(t)
			require.LessOrEqual(t, took, patience)
			<-time.After(10 * time.Millisecond)
		}
		synctest.Wait()
		require.LessOrEqual(t, c.passes.Load(), int64(16), "a pass of a second, then a pause of three")
		require.GreaterOrEqual(t, c.passes.Load(), int64(14))
	})
}

// A short pass is waited for. So a reader of a small database gets exact numbers.
func TestAReaderWaitsForAShortPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(5 * time.Millisecond)
		_, _ = c.read(t)
		for n := range int64(20) {
			<-time.After(minPause)
			c.state.Store(n)
			state, took := c.read(t)
			require.Equal(t, n, state)
			require.Equal(t, 5*time.Millisecond, took)
		}
	})
}

// After Expire, a reader gets what was changed before, although a snapshot was counted a moment ago.
func TestExpireEndsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(50 * time.Millisecond)
		_, _ = c.read(t)
		c.state.Store(1)
		state, took := c.read(t)
		require.Zero(t, state)
		require.Zero(t, took)
		c.Expire()
		state, took = c.read(t)
		require.EqualValues(t, 1, state)
		require.Equal(t, 50*time.Millisecond, took)
		go func() { _, _ = c.Fresh(t.Context(), 0) }() // it waits for the pause
		<-time.After(160 * time.Millisecond)           // the pass runs
		c.state.Store(2)
		c.Expire()
		state, _ = c.read(t)
		require.EqualValues(t, 2, state, "a pass that began before is not enough")
		<-time.After(time.Second)
	})
}

// Fresh returns what was committed before the call, also if a pass is running that began earlier.
func TestFreshSeesWhatWasBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(time.Second)
		go func() { _, _ = c.Read(t.Context()) }()
		<-time.After(time.Millisecond)
		c.state.Store(7)
		s, err := c.Fresh(t.Context(), 0)
		require.NoError(t, err)
		require.EqualValues(t, 7, s.Queues[0].DeadLetters)
		c.state.Store(8)
		begin := time.Now()
		s, err = c.Fresh(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.EqualValues(t, 7, s.Queues[0].DeadLetters, "a second old is new enough")
		require.Zero(t, time.Since(begin))
		synctest.Wait()
	})
}

// An open page that got an older snapshot is told once, when there are other numbers. Then no pass runs.
func TestAnOpenPageIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(time.Second)
		var told atomic.Int64
		stop := c.Watch(func() {
			told.Add(1)
			go func() { _, _ = c.Read(t.Context()) }() // the page is read again
		})
		_, _ = c.read(t)
		c.state.Store(1)
		state, _ := c.read(t)
		require.Zero(t, state, "during the pause")
		<-time.After(time.Minute)
		require.EqualValues(t, 1, told.Load())
		passes := c.passes.Load()
		require.LessOrEqual(t, passes, int64(3))
		<-time.After(time.Hour)
		require.Equal(t, passes, c.passes.Load(), "an idle server counts nothing")
		state, _ = c.read(t)
		require.EqualValues(t, 1, state)
		<-time.After(time.Minute)
		stop()
		require.EqualValues(t, 1, told.Load())

		c.state.Store(2)
		passes = c.passes.Load()
		_, _ = c.read(t)
		_, _ = c.read(t)
		<-time.After(time.Hour)
		require.Equal(t, passes+1, c.passes.Load(), "without an open page no pass follows a read")
	})
}

func TestAFailedPassIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounting(time.Millisecond)
		c.err = errors.New("no answer")
		_, err := c.Read(t.Context())
		require.ErrorIs(t, err, c.err)
		_, err = c.Fresh(t.Context(), time.Hour)
		require.ErrorIs(t, err, c.err)
		c.err = nil
		_, err = c.Read(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		<-time.After(time.Second)
		_, err = c.Fresh(ctx, 0)
		require.ErrorIs(t, err, context.Canceled)
		<-time.After(time.Second)
	})
}

// A list goes on after the last element of a page, and has each element once.
func TestListsHavePages(t *testing.T) {
	t.Parallel()
	at := time.Now()
	s := &Snapshot{At: at, Groups: []Group{
		{Queue: "a", Name: "g", GroupSums: GroupSums{Lag: 5, Oldest: at.Add(-time.Minute), DeadLetters: 1}},
		{Queue: "a", Name: "h", GroupSums: GroupSums{Lag: 7, ConsumedAt: at}},
		{Queue: "b", Name: "", GroupSums: GroupSums{Lag: 5, Oldest: at.Add(-time.Hour), Failing: 2}},
		{Queue: "c", Name: "g"},
	}}
	names := func(order Order, limit int) (all []string) {
		var after *Key
		for {
			page, next := s.ListGroups(func(*Group) bool { return true }, order, after, limit)
			for _, g := range page {
				all = append(all, g.Queue+g.Name)
			}
			if after = next; next == nil {
				return all
			}
			require.Len(t, page, limit)
		}
	}
	for _, limit := range []int{1, 2, 3, 4, 5} {
		require.Equal(t, []string{"ag", "ah", "b", "cg"}, names(ByName, limit))
		require.Equal(t, []string{"ah", "ag", "b", "cg"}, names(ByBacklog, limit))
		require.Equal(t, []string{"b", "ag", "ah", "cg"}, names(ByOldest, limit))
		require.Equal(t, []string{"b", "ag", "ah", "cg"}, names(ByFailures, limit))
		require.Equal(t, []string{"ag", "ah", "b", "cg"}, names(ByDeadLetters, limit))
		require.Equal(t, []string{"ag", "b", "cg", "ah"}, names(ByConsumed, limit))
	}
	require.Equal(t, "b", s.Group("b", "").Queue)
	require.Nil(t, s.Group("b", "g"))
	require.Empty(t, s.GroupsOf("bb"))
	require.Len(t, s.GroupsOf("a"), 2)
}

package readiness_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	group     = queue.Target{Group: 1}
	partition = queue.Target{Group: 1, Partition: 2}
)

// newTracker returns a Tracker whose entries hold for a minute. Call it inside a bubble.
func newTracker(t *testing.T) *readiness.Tracker {
	t.Helper()
	tracker := readiness.New(time.Minute)
	t.Cleanup(tracker.Close)
	return tracker
}

func woken(ticket *readiness.Ticket) bool {
	synctest.Wait()
	select {
	case <-ticket.C():
		return true
	default:
		return false
	}
}

func TestKnownEmptyUntilSomethingIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t)
		require.False(t, tracker.KnownEmpty(group))
		o := tracker.Observe(group)
		require.False(t, tracker.KnownEmpty(group), "the probe has not ended")
		tracker.SetEmpty(group, o, readiness.NextDue{Known: true, In: time.Second})
		require.False(t, tracker.KnownEmpty(partition))
		ticket := tracker.Ticket(readiness.TargetKey(group))
		defer ticket.Close()
		require.True(t, tracker.KnownEmpty(group), "KnownEmpty also sets the timer of the ticket")
		require.Len(t, tracker.Scheduled(10), 1)
		time.Sleep(time.Second)
		require.True(t, woken(ticket))
		require.False(t, tracker.KnownEmpty(group))
		require.EqualValues(t, 1, tracker.WokenByTimer())
	})
}

func TestAnnouncementDuringTheProbeWins(t *testing.T) {
	t.Parallel()
	for name, announce := range map[string]func(*readiness.Tracker){
		"ready":       func(tracker *readiness.Tracker) { tracker.Ready([]queue.Ready{{Group: 1, Partition: 2}}, "test") },
		"resync":      func(tracker *readiness.Tracker) { tracker.Resync("test") },
		"drop":        func(tracker *readiness.Tracker) { tracker.Drop(group); tracker.Drop(partition) },
		"newer probe": func(tracker *readiness.Tracker) { tracker.Observe(group); tracker.Observe(partition) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tracker := newTracker(t)
				for _, target := range []queue.Target{group, partition} {
					o := tracker.Observe(target)
					announce(tracker)
					tracker.SetEmpty(target, o, readiness.NextDue{})
					require.False(t, tracker.KnownEmpty(target))
				}
			})
		})
	}
}

func TestKnownEmptyEndsAtItsMaxAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t)
		tracker.SetEmpty(group, tracker.Observe(group), readiness.NextDue{})
		time.Sleep(time.Minute - time.Nanosecond)
		require.True(t, tracker.KnownEmpty(group))
		time.Sleep(time.Nanosecond)
		require.False(t, tracker.KnownEmpty(group))
	})
}

// If a probe takes messages from all partitions that became ready, the target is known to be empty again.
func TestKnownEmptyAfterAllReadyPartitionsWereTaken(t *testing.T) {
	t.Parallel()
	ready := func(partitions ...int64) (list []queue.Ready) {
		for _, p := range partitions {
			list = append(list, queue.Ready{Group: 1, Partition: p})
		}
		return list
	}
	many := make([]int64, 100)
	for i := range many {
		many[i] = int64(i + 1)
	}
	for name, c := range map[string]struct {
		before, during, after []queue.Ready
		taken                 []int64
		empty                 bool
	}{
		"it takes the only partition":            {ready(2), nil, nil, []int64{2}, true},
		"it takes two":                           {ready(2, 3), nil, nil, []int64{2, 3}, true},
		"it takes one of two":                    {ready(2, 3), nil, nil, []int64{2}, false},
		"it takes another partition":             {ready(2), nil, nil, []int64{3}, false},
		"the partition is ready again meanwhile": {ready(2), ready(2), nil, []int64{2}, false},
		"another partition is ready meanwhile":   {ready(2), ready(3), nil, []int64{2}, false},
		"messages are left":                      {ready(2), nil, ready(2), []int64{2}, false},
		"the partition is ready later":           {ready(2), nil, []queue.Ready{{Group: 1, Partition: 2, In: time.Second}}, []int64{2}, true},
		"another partition will be ready later":  {ready(2), []queue.Ready{{Group: 1, Partition: 3, In: time.Second}}, nil, []int64{2}, true},
		"an unknown partition was ready":         {ready(0), nil, nil, []int64{2}, false},
		"more partitions than are remembered":    {ready(many...), nil, nil, many, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tracker := newTracker(t)
				tracker.SetEmpty(group, tracker.Observe(group), readiness.NextDue{})
				tracker.Ready(c.before, "")
				require.False(t, tracker.KnownEmpty(group) && len(c.before) > 0)
				lost, o := tracker.Observe(group), tracker.Observe(group)
				tracker.Ready(c.during, "")
				tracker.SetTaken(group, lost, c.taken)
				require.False(t, tracker.KnownEmpty(group), "a later probe has begun")
				tracker.SetTaken(group, o, c.taken)
				tracker.Ready(c.after, "")
				require.Equal(t, c.empty, tracker.KnownEmpty(group))
				time.Sleep(time.Second)
				later := c.after != nil || c.during != nil
				require.Equal(t, c.empty && !later, tracker.KnownEmpty(group), "a partition is due now")
			})
		})
	}
}

// A push to a paused target wakes no ticket. The resync at the end of the pause wakes the tickets, also if it happens during the
// probe.
func TestOnlyAResyncWakesAPausedTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t)
		pushed := []queue.Ready{{Group: 1, Partition: 2}}
		tracker.SetPaused(group, tracker.Observe(group))
		ticket, named := tracker.Ticket(readiness.TargetKey(group)), tracker.Ticket(readiness.TargetKey(partition))
		defer ticket.Close()
		defer named.Close()
		require.Equal(t, 1, tracker.Ready(pushed, ""), "the partition was not seen paused")
		require.True(t, tracker.KnownEmpty(group))
		require.False(t, woken(ticket))
		tracker.Resync("")
		require.True(t, woken(ticket))

		late := tracker.Observe(group)
		tracker.Resync("")
		tracker.SetPaused(group, late)
		require.False(t, tracker.KnownEmpty(group))
		again := tracker.Ticket(readiness.TargetKey(group))
		defer again.Close()
		require.Equal(t, 1, tracker.Ready(pushed, ""))
		require.True(t, woken(again))
	})
}

func TestTicketsWakeByTheirKeys(t *testing.T) {
	t.Parallel()
	partitionName := "1"
	req := &queue.PopRequest{Queue: "orders", Partition: &partitionName}
	tags := &queue.PopRequest{Tags: &queue.Tags{Namespace: "ns"}, Group: "g"}
	for name, c := range map[string]struct {
		wake                              func(*readiness.Tracker)
		group, partition, missing, byTags bool
	}{
		"ready":             {func(r *readiness.Tracker) { r.Ready([]queue.Ready{{Group: 1, Partition: 2}}, "test") }, true, true, false, true},
		"another partition": {func(r *readiness.Tracker) { r.Ready([]queue.Ready{{Group: 1, Partition: 3}}, "test") }, true, false, false, true},
		"another group":     {func(r *readiness.Tracker) { r.Ready([]queue.Ready{{Group: 4, Partition: 2}}, "test") }, false, false, false, false},
		"its queue":         {func(r *readiness.Tracker) { r.Created("orders", "", "test") }, false, false, true, true},
		"its partition":     {func(r *readiness.Tracker) { r.Created("orders", "1", "test") }, false, false, true, false},
		"another name":      {func(r *readiness.Tracker) { r.Created("orders", "2", "test") }, false, false, false, false},
		"an unknown name":   {func(r *readiness.Tracker) { r.CreatedUnnamed("test") }, false, false, true, true},
		"resync":            {func(r *readiness.Tracker) { r.Resync("test") }, true, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tracker := newTracker(t)
				later := queue.Target{Group: 1, Partition: 2, Epoch: 7}
				tickets := []*readiness.Ticket{
					tracker.Ticket(readiness.TargetKey(group)), tracker.Ticket(readiness.TargetKey(later)),
					tracker.Ticket(readiness.CreationKeys(req)...), tracker.Ticket(readiness.TagKeys(tags, []int64{1})...),
				}
				c.wake(tracker)
				for i, want := range []bool{c.group, c.partition, c.missing, c.byTags} {
					require.Equal(t, want, woken(tickets[i]), "ticket %d", i)
					tickets[i].Close()
				}
			})
		})
	}
}

func TestWaitUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		signaled, err := readiness.WaitUntil(t.Context(), began.Add(time.Second), nil)
		require.NoError(t, err)
		require.False(t, signaled)
		require.Equal(t, time.Second, time.Since(began))
		signal := make(chan struct{}, 1)
		signal <- struct{}{}
		signaled, err = readiness.WaitUntil(t.Context(), time.Now().Add(time.Second), signal)
		require.NoError(t, err)
		require.True(t, signaled)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = readiness.WaitUntil(ctx, time.Now().Add(time.Second), nil)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A group with a rate is closed at each refused probe, and no end of a lease ever opens it. Its state does not grow.
func TestTheStateOfALimitedGroupDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t)
		for range 1000 {
			tracker.SetLimited(group, tracker.Observe(group), time.Millisecond)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 1, tracker.Closed(group.Group))
	})
}

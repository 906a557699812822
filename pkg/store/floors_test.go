package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// group is the one whose floors the tests move.
const group = 7

// looked makes a look that found nothing due, and next in sight in an hour.
func looked(f *floors) (now time.Time) {
	now = time.Now()
	f.learn(group, f.begin(group), found{now: now, due: now, next: now.Add(time.Hour)})
	return now
}

func TestFloorsBeginWhereTheLastLookEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloors()
		first := f.begin(group)
		require.True(t, first.look)
		require.False(t, first.due.Valid || first.next.Valid, "nothing is known")
		require.False(t, f.lowest(group).Valid)
		now := looked(f)
		v := f.begin(group)
		require.Equal(t, now.Add(-floorMargin), v.due.Time, "what was being committed is not passed over")
		require.Equal(t, now.Add(time.Hour), v.next.Time)
		require.Equal(t, v.due, f.lowest(group))
		require.False(t, v.look)

		looks := 0
		for range 2 * claimsPerLook {
			if f.begin(group).look {
				looks++
			}
		}
		require.Equal(t, 2, looks)

		time.Sleep(floorless + time.Second)
		v = f.begin(group)
		require.True(t, v.look)
		require.False(t, v.due.Valid || v.next.Valid, "now and then everything")
		require.True(t, f.begin(group).due.Valid)

		v = f.begin(group)
		f.forget(0)
		require.False(t, f.begin(group).due.Valid)
		f.learn(group, v, found{now: now, due: now, next: now})
		require.False(t, f.begin(group).due.Valid, "what was seen before is forgotten, too")
	})
}

// Whatever lowers a floor lowers it too when it comes in the middle of a look that
// did not see it.
func TestFloorsAreLowered(t *testing.T) {
	t.Parallel()
	at := func(in time.Duration) queue.Ready {
		return queue.Ready{Group: group, Partition: 1, In: in, At: time.Now().Add(in)}
	}
	for name, c := range map[string]struct {
		lower func(f *floors)
		// due and next are what the floors are then, after now.
		due, next time.Duration
		unknown   bool
	}{
		"something at an instant not told": {func(f *floors) { f.ready(queue.Ready{Group: group, Partition: 1}) }, -heardMargin, 0, true},
		"something some time ago":          {func(f *floors) { f.ready(at(-time.Second)) }, -time.Second, time.Hour, false},
		"something within the margin":      {func(f *floors) { f.ready(at(-floorMargin / 4)) }, -floorMargin, time.Hour, false},
		"something in a while":             {func(f *floors) { f.ready(at(time.Minute)) }, -floorMargin, time.Minute, false},
		"something far away":               {func(f *floors) { f.ready(at(2 * time.Hour)) }, -floorMargin, time.Hour, false},
		"something ahead, of a session":    {func(f *floors) { f.ready(queue.Ready{Group: group, At: time.Now().Add(time.Minute)}) }, -floorMargin, time.Minute, false},
		"something now, of a session":      {func(f *floors) { f.ready(queue.Ready{Group: group, At: time.Now().Add(ahead / 2)}) }, -floorMargin, time.Hour, false},
		"something of another group":       {func(f *floors) { f.ready(queue.Ready{Group: group + 1}) }, -floorMargin, time.Hour, false},
		"a lease":                          {func(f *floors) { f.leased(group, time.Now().Add(time.Minute)) }, -floorMargin, time.Minute, false},
		"a lease that ends after the next": {func(f *floors) { f.leased(group, time.Now().Add(2*time.Hour)) }, -floorMargin, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFloors()
				f.begin(group)
				now := looked(f)
				c.lower(f)
				v := f.begin(group)
				require.Equal(t, now.Add(c.due), v.due.Time)
				require.Equal(t, !c.unknown, v.next.Valid)
				if !c.unknown {
					require.Equal(t, now.Add(c.next), v.next.Time)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFloors()
		f.begin(group)
		looked(f)
		time.Sleep(time.Second)
		v := f.begin(group)
		now := time.Now()
		time.Sleep(time.Millisecond)
		f.ready(queue.Ready{Group: group, Partition: 1})
		f.learn(group, v, found{now: now, due: now, next: now.Add(time.Hour)})
		after := f.begin(group)
		require.Equal(t, now.Add(time.Millisecond-heardMargin), after.due.Time)
		require.False(t, after.next.Valid)

		looked(f)
		v = f.begin(group)
		now = time.Now()
		time.Sleep(time.Millisecond)
		f.ready(at(-3 * time.Second))
		f.learn(group, v, found{now: now, due: now})
		require.Equal(t, now.Add(time.Millisecond-3*time.Second), f.begin(group).due.Time)

		time.Sleep(time.Second)
		v = f.begin(group)
		now = time.Now()
		time.Sleep(time.Millisecond)
		f.ready(at(-time.Second))
		f.learn(group, v, found{now: now, due: now})
		require.Equal(t, now.Add(time.Millisecond-time.Second), f.begin(group).due.Time,
			"what came before that look counts no more, however much follows")
		time.Sleep(time.Second)
		require.Equal(t, looked(f).Add(-floorMargin), f.begin(group).due.Time, "and then it is as before")
	})
}

func TestFloorsOfABacklogBeginAtTheOldest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloors()
		looked(f)
		now := time.Now()
		f.learn(group, f.begin(group), found{now: now, due: now.Add(-time.Minute)})
		require.Equal(t, now.Add(-time.Minute), f.begin(group).due.Time, "no margin below what is seen")
		f.learn(group, f.begin(group), found{now: now, due: now.Add(-floorMargin / 2)})
		require.Equal(t, now.Add(-floorMargin), f.begin(group).due.Time)
	})
}

// What lowers a floor is not kept for ever, so a floor is not either.
func TestFloorsThatNoLookHasMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloors()
		looked(f)
		time.Sleep(keepLowerings + time.Second)
		f.begin(group) // fails, and moves nothing
		require.False(t, f.begin(group).due.Valid)
	})
}

// Looks overlap: the one that ends last need not be the one that began last.
func TestFloorsOfALookThatWasOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFloors()
		whole := f.begin(group)
		looked(f)
		partial := f.begin(group)
		time.Sleep(time.Second)
		now := looked(f)
		f.learn(group, partial, found{now: now, due: now.Add(-time.Hour)})
		require.Equal(t, now.Add(-floorMargin), f.begin(group).due.Time)
		f.learn(group, whole, found{now: now, due: now.Add(-time.Hour)})
		require.Equal(t, now.Add(-time.Hour), f.begin(group).due.Time, "what was hidden from the others is seen")
	})
}

func TestLoweringsAreTheLowestSince(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l lowerings
		var all []lowering
		behind := rapid.IntRange(0, int(2*keepLowerings/time.Second))
		now := time.Now()
		for range rapid.IntRange(1, maxLowerings).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Millisecond)
			one := lowering{now, now.Add(-time.Duration(behind.Draw(t, "behind")) * time.Second)}
			l.add(one.noticed, one.to)
			all = append(all, one)
		}
		since := now.Add(-time.Duration(rapid.IntRange(0, int(keepLowerings/time.Millisecond)).Draw(t, "since")) * time.Millisecond)
		lowest := now
		for _, one := range all {
			if !one.noticed.Before(since) {
				lowest = earlier(lowest, one.to)
			}
		}
		l.forget(since)
		require.Equal(t, lowest, l.below(now))
	})
}

func TestMoreLoweringsThanAreKeptGoAsDeep(t *testing.T) {
	t.Parallel()
	var l lowerings
	now := time.Now()
	for i := range 2 * maxLowerings {
		at := now.Add(time.Duration(i) * time.Millisecond)
		l.add(at, at)
	}
	require.Len(t, l, maxLowerings)
	require.Equal(t, now, l.below(now.Add(time.Hour)))
	l.forget(now.Add(2 * maxLowerings * time.Millisecond))
	require.Empty(t, l)
}

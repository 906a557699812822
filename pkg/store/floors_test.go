package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
	ready := func(in time.Duration) []queue.Ready { return []queue.Ready{{Group: group, Partition: 1, In: in}} }
	for name, c := range map[string]struct {
		lower func(f *floors)
		// due and next are what the floors are then, after now.
		due, next time.Duration
		unknown   bool
	}{
		"others made something ready":      {func(f *floors) { f.heard(ready(0)) }, -heardMargin, 0, true},
		"a slow commit":                    {func(f *floors) { f.took(3 * time.Second) }, -3*time.Second - floorMargin, time.Hour, false},
		"a commit within the margin":       {func(f *floors) { f.took(floorMargin / 4) }, -floorMargin, time.Hour, false},
		"a lease":                          {func(f *floors) { f.leased(group, time.Now().Add(time.Minute)) }, -floorMargin, time.Minute, false},
		"another group":                    {func(f *floors) { f.heard([]queue.Ready{{Group: group + 1}}) }, -floorMargin, time.Hour, false},
		"something here in a while":        {func(f *floors) { f.announced(ready(time.Minute)) }, -floorMargin, time.Minute - floorMargin, false},
		"something here now":               {func(f *floors) { f.announced(ready(0)) }, -floorMargin, time.Hour, false},
		"something far away":               {func(f *floors) { f.announced(ready(2 * time.Hour)) }, -floorMargin, time.Hour, false},
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
		f.heard(ready(0))
		f.learn(group, v, found{now: now, due: now, next: now.Add(time.Hour)})
		after := f.begin(group)
		require.Equal(t, now.Add(-heardMargin), after.due.Time)
		require.False(t, after.next.Valid)

		looked(f)
		v = f.begin(group)
		now = time.Now()
		time.Sleep(time.Millisecond)
		f.took(3 * time.Second)
		f.learn(group, v, found{now: now, due: now})
		require.Equal(t, now.Add(-3*time.Second-floorMargin), f.begin(group).due.Time)
		time.Sleep(time.Second)
		require.Equal(t, looked(f).Add(-floorMargin), f.begin(group).due.Time, "and then it is as before")
	})
}

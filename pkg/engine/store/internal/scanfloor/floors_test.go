package scanfloor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// group is the group whose floors the tests move.
const group = 7

// scanned makes a scan that finds no due cursor, and a cursor that becomes due in one hour.
func scanned(f *Floors) (now time.Time) {
	now = time.Now()
	f.Learn(group, f.Begin(group), Observation{Now: now, Due: now, Next: now.Add(time.Hour)})
	return now
}

func TestAScanBeginsWhereTheLastScanEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New()
		first := f.Begin(group)
		require.True(t, first.Move)
		require.False(t, first.Due.Valid || first.Next.Valid, "no floor is known")
		require.False(t, f.Lowest(group).Valid)
		now := scanned(f)
		v := f.Begin(group)
		require.Equal(t, now.Add(-Margin), v.Due.Time, "the margin covers commits in flight")
		require.Equal(t, now.Add(time.Hour), v.Next.Time)
		require.Equal(t, v.Due, f.Lowest(group))
		require.False(t, v.Move)

		moves := 0
		for range 2 * claimsPerMove {
			if f.Begin(group).Move {
				moves++
			}
		}
		require.Equal(t, 2, moves)

		time.Sleep(fullScanInterval + time.Second)
		v = f.Begin(group)
		require.True(t, v.Move)
		require.False(t, v.Due.Valid || v.Next.Valid, "a full scan has no floors")
		require.True(t, f.Begin(group).Due.Valid)

		v = f.Begin(group)
		f.ForgetAll()
		require.False(t, f.Begin(group).Due.Valid)
		f.Learn(group, v, Observation{Now: now, Due: now, Next: now})
		require.False(t, f.Begin(group).Due.Valid, "the result of a scan from before the reset does not count")
	})
}

// An event lowers a floor even if it arrives during a scan that did not see the cursor.
func TestEventsLowerTheFloors(t *testing.T) {
	at := func(in time.Duration) queue.Ready {
		return queue.Ready{Group: group, Partition: 1, In: in, At: time.Now().Add(in)}
	}
	for name, c := range map[string]struct {
		lower func(f *Floors)
		// due and next are the floors afterwards, relative to now.
		due, next time.Duration
		unknown   bool
	}{
		"ready at an unknown instant":           {func(f *Floors) { f.Ready(queue.Ready{Group: group, Partition: 1}) }, -unknownInstantMargin, 0, true},
		"ready some time ago":                   {func(f *Floors) { f.Ready(at(-time.Second)) }, -time.Second, time.Hour, false},
		"ready within the margin":               {func(f *Floors) { f.Ready(at(-Margin / 4)) }, -Margin, time.Hour, false},
		"ready in a minute":                     {func(f *Floors) { f.Ready(at(time.Minute)) }, -Margin, time.Minute, false},
		"ready in two hours":                    {func(f *Floors) { f.Ready(at(2 * time.Hour)) }, -Margin, time.Hour, false},
		"ready in a minute, from a SQL session": {func(f *Floors) { f.Ready(queue.Ready{Group: group, At: time.Now().Add(time.Minute)}) }, -Margin, time.Minute, false},
		"ready now, from a SQL session":         {func(f *Floors) { f.Ready(queue.Ready{Group: group, At: time.Now().Add(clockTolerance / 2)}) }, -Margin, time.Hour, false},
		"another group":                         {func(f *Floors) { f.Ready(queue.Ready{Group: group + 1}) }, -Margin, time.Hour, false},
		"a lease":                               {func(f *Floors) { f.Leased(group, time.Now().Add(time.Minute)) }, -Margin, time.Minute, false},
		"a lease that ends after the next":      {func(f *Floors) { f.Leased(group, time.Now().Add(2*time.Hour)) }, -Margin, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := New()
				f.Begin(group)
				now := scanned(f)
				c.lower(f)
				v := f.Begin(group)
				require.Equal(t, now.Add(c.due), v.Due.Time)
				require.Equal(t, !c.unknown, v.Next.Valid)
				if !c.unknown {
					require.Equal(t, now.Add(c.next), v.Next.Time)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := New()
		f.Begin(group)
		scanned(f)
		time.Sleep(time.Second)
		v := f.Begin(group)
		now := time.Now()
		time.Sleep(time.Millisecond)
		f.Ready(queue.Ready{Group: group, Partition: 1})
		f.Learn(group, v, Observation{Now: now, Due: now, Next: now.Add(time.Hour)})
		after := f.Begin(group)
		require.Equal(t, now.Add(time.Millisecond-unknownInstantMargin), after.Due.Time)
		require.False(t, after.Next.Valid)

		scanned(f)
		v = f.Begin(group)
		now = time.Now()
		time.Sleep(time.Millisecond)
		f.Ready(at(-3 * time.Second))
		f.Learn(group, v, Observation{Now: now, Due: now})
		require.Equal(t, now.Add(time.Millisecond-3*time.Second), f.Begin(group).Due.Time)

		time.Sleep(time.Second)
		v = f.Begin(group)
		now = time.Now()
		time.Sleep(time.Millisecond)
		f.Ready(at(-time.Second))
		f.Learn(group, v, Observation{Now: now, Due: now})
		require.Equal(t, now.Add(time.Millisecond-time.Second), f.Begin(group).Due.Time,
			"events before the scan no longer count")
		time.Sleep(time.Second)
		require.Equal(t, scanned(f).Add(-Margin), f.Begin(group).Due.Time, "the next scan moves the floor up again")
	})
}

func TestTheFloorOfABacklogIsItsOldestCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New()
		scanned(f)
		now := time.Now()
		f.Learn(group, f.Begin(group), Observation{Now: now, Due: now.Add(-time.Minute)})
		require.Equal(t, now.Add(-time.Minute), f.Begin(group).Due.Time, "a cursor that was seen needs no margin")
		f.Learn(group, f.Begin(group), Observation{Now: now, Due: now.Add(-Margin / 2)})
		require.Equal(t, now.Add(-Margin), f.Begin(group).Due.Time)
	})
}

// Resets are dropped after keepResets. So a floor that no scan has moved for keepResets is not
// used.
func TestAFloorThatNoScanMovedExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New()
		scanned(f)
		time.Sleep(keepResets + time.Second)
		f.Begin(group) // this scan fails and moves no floor
		require.False(t, f.Begin(group).Due.Valid)
	})
}

// Scans may overlap. The scan that ends last is not always the scan that began last.
func TestALaterScanWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New()
		whole := f.Begin(group)
		scanned(f)
		partial := f.Begin(group)
		time.Sleep(time.Second)
		now := scanned(f)
		f.Learn(group, partial, Observation{Now: now, Due: now.Add(-time.Hour)})
		require.Equal(t, now.Add(-Margin), f.Begin(group).Due.Time)
		f.Learn(group, whole, Observation{Now: now, Due: now.Add(-time.Hour)})
		require.Equal(t, now.Add(-time.Hour), f.Begin(group).Due.Time, "a scan without floors lowers the floor")
	})
}

func TestTheLowestResetSinceAnInstantWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l floorResets
		var all []floorReset
		behind := rapid.IntRange(0, int(2*keepResets/time.Second))
		now := time.Now()
		for range rapid.IntRange(1, maxResets).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Millisecond)
			reset := floorReset{now, now.Add(-time.Duration(behind.Draw(t, "behind")) * time.Second)}
			l.add(reset.noticed, reset.instant)
			all = append(all, reset)
		}
		since := now.Add(-time.Duration(rapid.IntRange(0, int(keepResets/time.Millisecond)).Draw(t, "since")) * time.Millisecond)
		lowest := now
		for _, reset := range all {
			if !reset.noticed.Before(since) {
				lowest = earlier(lowest, reset.instant)
			}
		}
		l.dropBefore(since)
		require.Equal(t, lowest, l.lowest(now))
	})
}

func TestMergedResetsKeepTheLowestInstant(t *testing.T) {
	var l floorResets
	now := time.Now()
	for i := range 2 * maxResets {
		at := now.Add(time.Duration(i) * time.Millisecond)
		l.add(at, at)
	}
	require.Len(t, l, maxResets)
	require.Equal(t, now, l.lowest(now.Add(time.Hour)))
	l.dropBefore(now.Add(2 * maxResets * time.Millisecond))
	require.Empty(t, l)
}

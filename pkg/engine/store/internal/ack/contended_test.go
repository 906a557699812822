package ack

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContendedCursorsStayCachedUntilLockedOrExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursor := func(partition int64) Cursor { return Cursor{partition, "g"} }
		single, wide, other := []Cursor{cursor(1)}, []Cursor{cursor(3), cursor(2)}, []Cursor{cursor(3)}
		calls := [][]Cursor{single, wide, other}
		c := newContentionCache()
		free := func() (free [][]Cursor) {
			for _, call := range calls {
				if _, contended := c.first(slices.Values(call)); !contended {
					free = append(free, call)
				}
			}
			return free
		}
		require.Equal(t, calls, free())

		c.learn(nil, []Cursor{cursor(1), cursor(2), {Partition: 3, Group: "another"}})
		for want, call := range map[Cursor][]Cursor{cursor(1): single, cursor(2): wide} {
			found, contended := c.first(slices.Values(call))
			require.True(t, contended)
			require.Equal(t, want, found)
		}
		time.Sleep(Patience - time.Millisecond)
		require.Equal(t, [][]Cursor{other}, free())
		c.learn([]Cursor{cursor(1), cursor(2)}, []Cursor{cursor(1)})
		require.Equal(t, [][]Cursor{wide, other}, free())
		time.Sleep(Patience - time.Millisecond)
		require.Equal(t, [][]Cursor{wide, other}, free())
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, calls, free())
		require.Empty(t, c.until)
	})
}

package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// What was found held is remembered until it is got, or its time is over.
func TestHeldCursorsAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		callOf := func(partitions ...int64) *ack {
			a := newAck(make([]queue.AckItem, len(partitions)))
			for i, key := range partitions {
				a.items[i].Group, a.partition[i] = "g", &queue.Partition{Key: key}
				a.found = append(a.found, i)
			}
			return a
		}
		name := func(partition int64) cursorName { return cursorName{partition, "g"} }
		h := newHeldCursors()
		one, wide, other := callOf(1), callOf(3, 2), callOf(3)
		calls := []*ack{one, wide, other}
		free := func() []*ack {
			held, free := h.among(calls)
			require.Len(t, held, len(calls)-len(free))
			return free
		}
		require.Equal(t, calls, free())

		h.learn(nil, []cursorName{name(1), name(2), {partition: 3, group: "another"}})
		held, _ := h.among(calls)
		require.Equal(t, map[*ack]*heldError{
			one:  {cursor: name(1), since: time.Now()},
			wide: {cursor: name(2), since: time.Now()},
		}, held)
		time.Sleep(ackPatience - time.Millisecond)
		require.Equal(t, []*ack{other}, free())
		h.learn([]cursorName{name(1), name(2)}, []cursorName{name(1)}) // looked at both
		require.Equal(t, []*ack{wide, other}, free())
		time.Sleep(ackPatience - time.Millisecond)
		require.Equal(t, []*ack{wide, other}, free())
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, calls, free())
		require.Empty(t, h.until)
	})
}

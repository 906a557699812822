package names

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// After the full table was cleared once, groupsOfQueue still returns a group, because a request may use it.
// After the table was cleared twice, the group is gone.
func TestAFullTableOfGroupsIsCleared(t *testing.T) {
	c := newCache()
	require.Empty(t, c.groupsOfQueue(1))
	name := groupName{"q", "g", "*"}
	c.addGroup(name, queue.Target{Group: 10, Epoch: 1})
	require.False(t, c.addGroupOf(1, 10))
	require.False(t, c.addGroupOf(1, 10))
	next := int64(100)
	fill := func() {
		for range maxNames - 1 {
			require.False(t, c.addGroupOf(2, next))
			next++
		}
	}
	fill()
	require.True(t, c.addGroupOf(1, 11), "the waiting requests must look up their groups again")
	_, ok := c.group(name)
	require.False(t, ok)
	require.ElementsMatch(t, []int64{10, 11}, c.groupsOfQueue(1))
	fill()
	require.True(t, c.addGroupOf(1, 12))
	require.ElementsMatch(t, []int64{11, 12}, c.groupsOfQueue(1))
	c.enter(2)
	require.False(t, c.addGroupOf(1, 12))
	require.ElementsMatch(t, []int64{12}, c.groupsOfQueue(1))
}

package listen

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestAddKeepsTheEarliestInstant(t *testing.T) {
	t.Parallel()
	soon, later := time.Now(), time.Now().Add(time.Hour)
	var m pendingNotifications
	m.add(Ready(1, 2, later))
	m.add(Ready(1, 2, soon))
	m.add(Ready(1, 2, later))
	require.Equal(t, map[groupPartition]time.Time{{1, 2}: soon}, m.ready)
	m.add(Ready(1, 2, time.Time{}))
	m.add(Ready(1, 2, soon))
	require.Equal(t, map[groupPartition]time.Time{{1, 2}: {}}, m.ready, "now is before every instant")
}

func TestResyncReplacesTheOtherEntries(t *testing.T) {
	t.Parallel()
	for name, resync := range map[string]func(*pendingNotifications){
		"all":                (*pendingNotifications).resyncOnly,
		"no group":           func(m *pendingNotifications) { m.add(Ready(0, 1, time.Time{})) },
		"negative partition": func(m *pendingNotifications) { m.add(Ready(1, -1, time.Time{})) },
	} {
		var m pendingNotifications
		m.add(Ready(1, 2, time.Time{}))
		m.addCreated()
		resync(&m)
		m.add(Ready(1, 3, time.Time{}))
		m.addCreated()
		require.Equal(t, pendingNotifications{resync: true}, m, name)
	}
}

func TestPendingEntriesAreBounded(t *testing.T) {
	t.Parallel()
	var m, half pendingNotifications
	for i := range int64(maxPending) {
		m.add(Ready(1, i, time.Time{}))
		if i%2 == 0 {
			half.add(Ready(2, i, time.Time{}))
		}
	}
	require.False(t, m.resync)
	m.merge(&half)
	require.Equal(t, pendingNotifications{resync: true}, m, "a failed flush is merged with newer entries")
	for i := range int64(maxPending + 1) {
		half.add(Ready(2, i, time.Time{}))
	}
	require.Equal(t, pendingNotifications{resync: true}, half)
}

func TestPayloadsOfAStatementAreBounded(t *testing.T) {
	t.Parallel()
	var m pendingNotifications
	m.canary, m.goodbye = 5, true
	const long = 1 << 60
	for i := range int64(30_000) {
		m.add(Ready(long, long+i, time.Time{}))
	}
	payloads, entries := m.payloads(queue.ID{})
	require.Equal(t, []string{"1;i=00000000-0000-0000-0000-000000000000;c=5;bye;all"}, payloads)
	require.Equal(t, 1, entries)
	for p := range m.ready {
		if p.partition >= long+5_000 {
			delete(m.ready, p)
		}
	}
	payloads, entries = m.payloads(queue.ID{})
	require.Greater(t, len(payloads), 10)
	require.Equal(t, 5_000, entries)
}

// Merging two sets in any order equals adding their entries one after the other.
func TestMergeEqualsAdd(t *testing.T) {
	t.Parallel()
	type change = func(*pendingNotifications)
	entry := rapid.Custom(func(t *rapid.T) change {
		switch rapid.IntRange(0, 20).Draw(t, "kind") {
		case 0:
			return (*pendingNotifications).addCreated
		case 1:
			return (*pendingNotifications).resyncOnly
		}
		var at time.Time
		if seconds := rapid.Int64Range(0, 3).Draw(t, "at"); seconds > 0 {
			at = time.Unix(seconds, 0)
		}
		if rapid.IntRange(0, 5).Draw(t, "shared") == 0 {
			all := ReadyPartition{Queue: 1, Partition: rapid.Int64Range(1, 3).Draw(t, "partition"), At: at}
			return func(m *pendingNotifications) { m.addPartition(all) }
		}
		ready := Ready(rapid.Int64Range(1, 3).Draw(t, "group"), rapid.Int64Range(0, 3).Draw(t, "partition"), at)
		return func(m *pendingNotifications) { m.add(ready) }
	})
	fill := func(m *pendingNotifications, changes []change) {
		for _, c := range changes {
			c(m)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		first, second := rapid.SliceOf(entry).Draw(t, "first"), rapid.SliceOf(entry).Draw(t, "second")
		var want, a, b, c, d pendingNotifications
		fill(&want, first)
		fill(&want, second)
		want.canary, want.goodbye = 9, true
		fill(&a, first)
		fill(&b, second)
		a.canary, b.canary, b.goodbye = 4, 9, true
		fill(&c, first)
		fill(&d, second)
		c.canary, d.canary, c.goodbye = 9, 4, true
		a.merge(&b)
		d.merge(&c)
		for _, merged := range []pendingNotifications{a, d} {
			if !maps.Equal(want.ready, merged.ready) || !maps.Equal(want.partitions, merged.partitions) {
				t.Fatalf("want %v %v, got %v %v", want.ready, want.partitions, merged.ready, merged.partitions)
			}
			want, merged := want, merged
			want.ready, merged.ready, want.partitions, merged.partitions = nil, nil, nil, nil
			require.Equal(t, want, merged)
		}
		if want.empty() {
			t.Fatal("a set with a canary is not empty")
		}
	})
	require.True(t, new(pendingNotifications).empty())
}

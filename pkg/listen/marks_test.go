package listen

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestTheEarliestInstantIsKept(t *testing.T) {
	t.Parallel()
	soon, later := time.Now(), time.Now().Add(time.Hour)
	var m marks
	m.add(Ready(1, 2, later))
	m.add(Ready(1, 2, soon))
	m.add(Ready(1, 2, later))
	require.Equal(t, map[place]time.Time{{1, 2}: soon}, m.ready)
	m.add(Ready(1, 2, time.Time{}))
	m.add(Ready(1, 2, soon))
	require.Equal(t, map[place]time.Time{{1, 2}: {}}, m.ready, "now is before every instant")
}

func TestAllIncludesTheRest(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Entry{
		"all": Resync(), "no group": Ready(0, 1, time.Time{}), "negative partition": Ready(1, -1, time.Time{}), "unknown": {Kind: "odd"},
	} {
		var m marks
		m.add(Ready(1, 2, time.Time{}))
		m.add(Created())
		m.add(e)
		m.add(Ready(1, 3, time.Time{}))
		require.Equal(t, marks{all: true}, m, name)
	}
}

func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	var m, half marks
	for i := range int64(maxMarks) {
		m.add(Ready(1, i, time.Time{}))
		if i%2 == 0 {
			half.add(Ready(2, i, time.Time{}))
		}
	}
	require.False(t, m.all)
	m.merge(&half)
	require.Equal(t, marks{all: true}, m, "a failed flush merged with what came since")
	for i := range int64(maxMarks + 1) {
		half.add(Ready(2, i, time.Time{}))
	}
	require.Equal(t, marks{all: true}, half)
}

func TestAStatementIsBounded(t *testing.T) {
	t.Parallel()
	var m marks
	m.canary, m.bye = 5, true
	const long = 1 << 60
	for i := range int64(30_000) {
		m.add(Ready(long, long+i, time.Time{}))
	}
	payloads, entries := m.payloads(queue.ID{})
	require.Equal(t, []string{"1;i=00000000-0000-0000-0000-000000000000;c=5;bye;all"}, payloads)
	require.EqualValues(t, 1, entries)
	for p := range m.ready {
		if p.partition >= long+5_000 {
			delete(m.ready, p)
		}
	}
	payloads, entries = m.payloads(queue.ID{})
	require.Greater(t, len(payloads), 10)
	require.EqualValues(t, 5_000, entries)
}

// What is merged in any order is what was added one after the other.
func TestMergingIsAdding(t *testing.T) {
	t.Parallel()
	entry := rapid.Custom(func(t *rapid.T) Entry {
		switch rapid.IntRange(0, 20).Draw(t, "kind") {
		case 0:
			return Created()
		case 1:
			return Resync()
		}
		var at time.Time
		if seconds := rapid.Int64Range(0, 3).Draw(t, "at"); seconds > 0 {
			at = time.Unix(seconds, 0)
		}
		return Ready(rapid.Int64Range(1, 3).Draw(t, "group"), rapid.Int64Range(0, 3).Draw(t, "partition"), at)
	})
	fill := func(m *marks, entries []Entry) {
		for _, e := range entries {
			m.add(e)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		first, second := rapid.SliceOf(entry).Draw(t, "first"), rapid.SliceOf(entry).Draw(t, "second")
		var one, a, b, c, d marks
		fill(&one, first)
		fill(&one, second)
		one.canary, one.bye = 9, true
		fill(&a, first)
		fill(&b, second)
		a.canary, b.canary, b.bye = 4, 9, true
		fill(&c, first)
		fill(&d, second)
		c.canary, d.canary, c.bye = 9, 4, true
		a.merge(&b)
		d.merge(&c)
		for _, merged := range []marks{a, d} {
			if !maps.Equal(one.ready, merged.ready) {
				t.Fatalf("want %v, got %v", one.ready, merged.ready)
			}
			one, merged := one, merged
			one.ready, merged.ready = nil, nil
			require.Equal(t, one, merged)
		}
		if one.empty() {
			t.Fatal("a set with a canary is not empty")
		}
	})
	require.True(t, new(marks).empty())
}

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// verdicts returns the figures of a report with one value each.
func verdicts(out *report) map[string]string {
	values := map[string]string{}
	for _, f := range out.figures {
		values[f.what] = f.value
	}
	return values
}

func TestLedgerSeesEveryBrokenPromise(t *testing.T) {
	t.Parallel()
	const queue = "q"
	a, b := lane{queue, "a"}, lane{queue, "b"}
	start := time.Now()
	for _, c := range []struct {
		name string
		came []int // numbers of lane a, in the order they came
		took time.Duration
		// found is what a search found afterwards.
		found                            int
		lost, stuck, doubled, disordered string
	}{
		{name: "all well", came: []int{0, 1, 2}, lost: "0", stuck: "0", doubled: "0", disordered: "0"},
		{name: "one lost", came: []int{0, 1}, lost: "1", stuck: "0", doubled: "0", disordered: "0"},
		{name: "one stuck", came: []int{0, 1}, found: 1, lost: "0", stuck: "1", doubled: "0", disordered: "0"},
		{name: "one very late", came: []int{0, 1, 2}, took: time.Minute, lost: "0", stuck: "3", doubled: "0", disordered: "0"},
		{name: "one twice", came: []int{0, 0, 1, 2}, lost: "0", stuck: "0", doubled: "1", disordered: "0"},
		{name: "one never pushed", came: []int{0, 1, 2, 3}, lost: "0", stuck: "0", doubled: "1", disordered: "0"},
		{name: "swapped", came: []int{0, 2, 1}, lost: "0", stuck: "0", doubled: "0", disordered: "2"},
		{name: "not from the start", came: []int{1, 2, 0}, lost: "0", stuck: "0", doubled: "0", disordered: "2"},
	} {
		book := newLedger()
		for range 3 {
			n := book.next(a)
			book.stored(a, n, start, start.Add(time.Millisecond))
		}
		n := book.next(b)
		book.stored(b, n, start, start)
		book.popped(b, n, start)
		for _, n := range c.came {
			book.popped(a, n, start.Add(2*time.Millisecond+c.took))
		}
		book.found = c.found
		out := newReport()
		book.judge(out, "", true)
		require.Equal(t, map[string]string{
			"lost": c.lost, "stuck": c.stuck, "delivered twice or never pushed": c.doubled, "out of order": c.disordered,
		}, verdicts(out), c.name)
		require.Equal(t, c.name != "all well", out.broken, c.name)
	}
}

func TestLedgerTimes(t *testing.T) {
	t.Parallel()
	at, start := lane{"q", "p"}, time.Now()
	book := newLedger()
	n := book.next(at)
	book.popped(at, n, start.Add(2*time.Millisecond)) // before its push was answered
	book.stored(at, n, start, start.Add(3*time.Millisecond))
	fromAnswer, fromStart := book.times()
	require.Equal(t, []time.Duration{-time.Millisecond}, fromAnswer)
	require.Equal(t, []time.Duration{2 * time.Millisecond}, fromStart)
	require.True(t, book.complete())
	require.Equal(t, 1, book.measuredPushes())

	book.forgetTimes()
	fromAnswer, _ = book.times()
	require.Empty(t, fromAnswer)
	require.Zero(t, book.measuredPushes())
	book.next(at)
	require.Empty(t, book.missing(), "what was not answered is not owed")
}

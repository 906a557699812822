package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
)

// now is the instant of every test.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at returns the instant some seconds from now.
func at(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }

// waiting returns an intent of group 1 that takes any partition and has 30 seconds
// until its deadline.
func waiting(changes ...func(*plan.Intent)) plan.Intent {
	intent := plan.Intent{Key: plan.Key{Group: 1}, Partitions: 1, Deadline: at(30)}
	for _, change := range changes {
		change(&intent)
	}
	return intent
}

func group(g int64) func(*plan.Intent)    { return func(i *plan.Intent) { i.Key.Group = g } }
func only(p int64) func(*plan.Intent)     { return func(i *plan.Intent) { i.Key.Partition = p } }
func upTo(n int) func(*plan.Intent)       { return func(i *plan.Intent) { i.Partitions = n } }
func deadline(sec int) func(*plan.Intent) { return func(i *plan.Intent) { i.Deadline = at(sec) } }

// due returns a poppable partition of group 1.
func due(partition, depth int64) plan.Candidate {
	return plan.Candidate{Group: 1, Partition: partition, Depth: depth, ReadyAt: at(-1)}
}

// held returns a partition of group 1 that is due seconds from now and that change
// makes unpoppable.
func held(partition int64, seconds int, change func(*plan.Candidate)) plan.Candidate {
	c := plan.Candidate{Group: 1, Partition: partition, Depth: 1, ReadyAt: at(seconds)}
	change(&c)
	return c
}

func isLeased(c *plan.Candidate)  { c.Leased = true }
func isOpen(c *plan.Candidate)    { c.WindowOpen = true }
func isDelayed(c *plan.Candidate) { c.Delayed = true }
func isPaused(c *plan.Candidate)  { c.Paused = true }
func isLater(*plan.Candidate)     {}

// granted returns the partitions of each intent that got some. The first intent has the number 1.
func granted(decisions []plan.Decision) map[int][]int64 {
	grants := map[int][]int64{}
	for i, d := range decisions {
		if d.Partitions != nil {
			grants[i+1] = d.Partitions
		}
	}
	return grants
}

type grants = map[int][]int64

// assignCase is an input of Assign and the partitions that it must give.
type assignCase struct {
	name       string
	intents    []plan.Intent
	candidates []plan.Candidate
	want       grants
}

func basicCases() []assignCase {
	exactlyDue, alwaysDue := due(1, 1), due(1, 1)
	exactlyDue.ReadyAt, alwaysDue.ReadyAt = now, time.Time{}
	return []assignCase{
		{"no intent", nil, []plan.Candidate{due(1, 1)}, grants{}},
		{"no candidate", []plan.Intent{waiting()}, nil, grants{}},
		{"one of each", []plan.Intent{waiting()}, []plan.Candidate{due(7, 1)}, grants{1: {7}}},
		{"due at this instant", []plan.Intent{waiting()}, []plan.Candidate{exactlyDue}, grants{1: {1}}},
		{"due at the zero time", []plan.Intent{waiting()}, []plan.Candidate{alwaysDue}, grants{1: {1}}},
		{
			"an expired intent gets nothing",
			[]plan.Intent{waiting(deadline(0)), waiting(deadline(-1)), waiting(only(1), deadline(0)), waiting()},
			[]plan.Candidate{due(1, 1)}, grants{4: {1}},
		},
		{
			"an intent without a deadline is expired",
			[]plan.Intent{{Key: plan.Key{Group: 1}, Partitions: 1}}, []plan.Candidate{due(1, 1)}, grants{},
		},
		{
			"unpoppable partitions are not given",
			[]plan.Intent{waiting(upTo(9)), waiting(only(1)), waiting(only(5))},
			[]plan.Candidate{
				held(1, -1, isLeased), held(2, -1, isOpen), held(3, -1, isDelayed), held(4, -1, isPaused), held(5, 1, isLater),
			},
			grants{},
		},
	}
}

func namedPartitionCases() []assignCase {
	return []assignCase{
		{
			"a named partition goes to the intent that names it, also if another is first",
			[]plan.Intent{waiting(deadline(1)), waiting(only(5), deadline(60))},
			[]plan.Candidate{due(5, 9)}, grants{2: {5}},
		},
		{
			"an intent that takes any partition gets another one",
			[]plan.Intent{waiting(), waiting(only(5))},
			[]plan.Candidate{due(5, 9), due(6, 1)}, grants{1: {6}, 2: {5}},
		},
		{
			"a named partition is not replaced by another",
			[]plan.Intent{waiting(only(4))}, []plan.Candidate{due(3, 9), due(5, 9)}, grants{},
		},
		{
			"of two that name a partition the first wins",
			[]plan.Intent{waiting(only(5), deadline(20)), waiting(only(5), deadline(10))},
			[]plan.Candidate{due(5, 1)}, grants{1: {5}},
		},
		{
			"an intent that names a partition gets one, whatever its bound",
			[]plan.Intent{waiting(only(5), upTo(3))},
			[]plan.Candidate{due(5, 1), due(6, 1)}, grants{1: {5}},
		},
	}
}

func orderCases() []assignCase {
	return []assignCase{
		{
			"intents are served in the order of the list",
			[]plan.Intent{waiting(deadline(20)), waiting(deadline(10))},
			[]plan.Candidate{due(1, 1)}, grants{1: {1}},
		},
		{
			"the first intent gets the deepest partition",
			[]plan.Intent{waiting(), waiting(), waiting()},
			[]plan.Candidate{due(1, 5), due(2, 50), due(3, 7)}, grants{1: {2}, 2: {3}, 3: {1}},
		},
		{
			"equal depths go by partition if rotate is 0",
			[]plan.Intent{waiting(), waiting()},
			[]plan.Candidate{due(9, 5), due(2, 5), due(4, 5)}, grants{1: {2}, 2: {4}},
		},
	}
}

func shareCases() []assignCase {
	inGroup2 := due(1, 1)
	inGroup2.Group = 2
	return []assignCase{
		{
			"one partition each before any intent has a second",
			[]plan.Intent{waiting(upTo(10), deadline(1)), waiting(), waiting(upTo(2), deadline(60))},
			[]plan.Candidate{due(1, 9), due(2, 8), due(3, 7)}, grants{1: {1}, 2: {2}, 3: {3}},
		},
		{
			"the rest is given in turns to the intents that may have more",
			[]plan.Intent{waiting(upTo(2)), waiting(), waiting(upTo(9)), waiting(upTo(3))},
			[]plan.Candidate{due(1, 19), due(2, 18), due(3, 17), due(4, 16), due(5, 15), due(6, 14), due(7, 13), due(8, 12), due(9, 11), due(10, 10)},
			grants{1: {1, 5}, 2: {2}, 3: {3, 6, 8, 10}, 4: {4, 7, 9}},
		},
		{
			"the rest ends in the middle of a turn",
			[]plan.Intent{waiting(upTo(3)), waiting(upTo(3))},
			[]plan.Candidate{due(1, 9), due(2, 8), due(3, 7)}, grants{1: {1, 3}, 2: {2}},
		},
		{
			"no intent gets more than its bound",
			[]plan.Intent{waiting(upTo(2))},
			[]plan.Candidate{due(1, 9), due(2, 8), due(3, 7)}, grants{1: {1, 2}},
		},
		{
			"a bound below 1 counts as 1",
			[]plan.Intent{waiting(upTo(0)), waiting(upTo(-7))},
			[]plan.Candidate{due(1, 9), due(2, 8), due(3, 7)}, grants{1: {1}, 2: {2}},
		},
		{
			"groups do not share: each gets the same partition",
			[]plan.Intent{waiting(), waiting(group(2))},
			[]plan.Candidate{due(1, 1), inGroup2}, grants{1: {1}, 2: {1}},
		},
		{
			"a group does not get the candidates of another",
			[]plan.Intent{waiting(group(3)), waiting(group(3), only(1)), waiting()},
			[]plan.Candidate{inGroup2}, grants{},
		},
	}
}

func TestAssignGivesPartitions(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(basicCases(), namedPartitionCases(), orderCases(), shareCases()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			decisions, doubles := plan.Assign(now, 0, c.intents, c.candidates)
			require.Zero(t, doubles)
			require.Len(t, decisions, len(c.intents))
			for i, d := range decisions {
				require.Equal(t, d.Partitions != nil, d.Outcome == plan.ViableAssigned, "intent %d: %s", i+1, d.Outcome)
			}
			require.Equal(t, c.want, granted(decisions))
		})
	}
}

func TestEqualDepthsRotate(t *testing.T) {
	t.Parallel()
	intents := []plan.Intent{waiting(), waiting(), waiting(), waiting(), waiting()}
	candidates := []plan.Candidate{due(10, 9), due(3, 5), due(1, 5), due(2, 5), due(20, 1)}
	for rotate, want := range map[uint64]grants{
		0:           {1: {10}, 2: {1}, 3: {2}, 4: {3}, 5: {20}},
		1:           {1: {10}, 2: {2}, 3: {3}, 4: {1}, 5: {20}},
		2:           {1: {10}, 2: {3}, 3: {1}, 4: {2}, 5: {20}},
		3:           {1: {10}, 2: {1}, 3: {2}, 4: {3}, 5: {20}},
		largest - 1: {1: {10}, 2: {3}, 3: {1}, 4: {2}, 5: {20}},
		largest:     {1: {10}, 2: {1}, 3: {2}, 4: {3}, 5: {20}},
	} {
		decisions, _ := plan.Assign(now, rotate, intents, candidates)
		require.Equal(t, want, granted(decisions), "rotate %d", rotate)
	}
}

// largest is the largest rotate; 3 divides it.
const largest = ^uint64(0)

// Each depth rotates on its own, also with more partitions than a sort algorithm for
// short lists handles.
func TestManyEqualDepthsRotate(t *testing.T) {
	t.Parallel()
	const size, depths = 300, 3
	var candidates []plan.Candidate
	for i := range int64(size) {
		candidates = append(candidates, due(i+1, i*7%depths))
	}
	var want []int64
	for depth := int64(depths - 1); depth >= 0; depth-- {
		var equal []int64
		for _, c := range candidates {
			if c.Depth == depth {
				equal = append(equal, c.Partition)
			}
		}
		want = append(append(want, equal[11:]...), equal[:11]...)
	}
	decisions, _ := plan.Assign(now, 11, []plan.Intent{waiting(upTo(size))}, candidates)
	require.Equal(t, want, decisions[0].Partitions)
}

// A named partition does not take part in the rotation, so that the next partition
// does not get two turns.
func TestRotationSkipsNamedPartitions(t *testing.T) {
	t.Parallel()
	intents := []plan.Intent{waiting(), waiting(only(2))}
	candidates := []plan.Candidate{due(1, 5), due(2, 5), due(3, 5)}
	first := map[int64]int{}
	for rotate := range uint64(6) {
		decisions, _ := plan.Assign(now, rotate, intents, candidates)
		first[decisions[0].Partitions[0]]++
	}
	require.Equal(t, map[int64]int{1: 3, 3: 3}, first)
}

func TestARepeatedCandidateIsCountedAndGivenOnce(t *testing.T) {
	t.Parallel()
	other := due(1, 1)
	other.Group = 2
	intents := []plan.Intent{waiting(upTo(5)), waiting(), waiting(only(1)), waiting(only(1))}
	decisions, doubles := plan.Assign(now, 0, intents,
		[]plan.Candidate{due(1, 3), due(2, 2), due(1, 3), other, due(2, 2), due(1, 3)})
	require.Equal(t, 3, doubles, "two more rows of partition 1, one more of partition 2; the row of another group is not a repetition")
	require.Equal(t, grants{1: {2}, 3: {1}}, granted(decisions))

	decisions, doubles = plan.Assign(now, 0, nil, []plan.Candidate{due(1, 3), due(1, 3)})
	require.Empty(t, decisions)
	require.Equal(t, 1, doubles, "repetitions are counted without intents too")
}

// If rows of one partition disagree, the row that makes it unpoppable counts.
func TestDisagreeingRowsMakeAPartitionUnpoppable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row  plan.Candidate
		want plan.Outcome
	}{
		"leased":  {held(1, -1, isLeased), plan.SkipLeaseTaken},
		"open":    {held(1, -1, isOpen), plan.SkipWindowBuffer},
		"delayed": {held(1, -1, isDelayed), plan.SkipDelayed},
		"paused":  {held(1, -1, isPaused), plan.SkipPaused},
		"later":   {held(1, 5, isLater), plan.SkipDelayed},
	} {
		for _, rows := range [][]plan.Candidate{{due(1, 1), c.row}, {c.row, due(1, 1)}} {
			decisions, doubles := plan.Assign(now, 0, []plan.Intent{waiting()}, rows)
			require.Equal(t, []plan.Decision{{Outcome: c.want}}, decisions, name)
			require.Equal(t, 1, doubles, name)
		}
	}
	for _, rows := range [][]plan.Candidate{{due(1, 1), due(1, 9), due(2, 5)}, {due(2, 5), due(1, 9), due(1, 1)}} {
		decisions, _ := plan.Assign(now, 0, []plan.Intent{waiting()}, rows)
		require.Equal(t, []int64{1}, decisions[0].Partitions, "the greater depth counts")
	}
}

package plan_test

import (
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

func only(p int64) func(*plan.Intent)     { return func(i *plan.Intent) { i.Key.Partition = p } }
func upTo(n int) func(*plan.Intent)       { return func(i *plan.Intent) { i.Partitions = n } }
func deadline(sec int) func(*plan.Intent) { return func(i *plan.Intent) { i.Deadline = at(sec) } }

// due returns a poppable partition of group 1.
func due(partition, depth int64) plan.Candidate {
	return plan.Candidate{Group: 1, Partition: partition, Depth: depth, ReadyAt: at(-1)}
}

// granted returns the partitions of each intent that got partitions. The first intent has the number 1.
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

// Each example is an input of Assign and the partitions that it gives. laws_test.go tests the general rules.
func TestAssignByExample(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		intents    []plan.Intent
		candidates []plan.Candidate
		want       map[int][]int64
	}{
		{
			"a named partition goes to the intent that names it, also if another is first",
			[]plan.Intent{waiting(deadline(1)), waiting(only(5), deadline(60))},
			[]plan.Candidate{due(5, 9)}, grants{2: {5}},
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
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			decisions, _ := plan.Assign(now, 0, c.intents, c.candidates)
			require.Equal(t, c.want, granted(decisions))
		})
	}
}

// A named partition does not take part in the rotation. Otherwise the next partition would be first twice as often as the others.
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

// Dashboards and alert rules use these texts.
func TestOutcomesKeepTheirNames(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[plan.Outcome]string{
		plan.ViableAssigned:           "viable_assigned",
		plan.SkipNoPartitions:         "skip_no_partitions",
		plan.SkipPartitionUnavailable: "skip_partition_unavailable",
		plan.SkipLeaseTaken:           "skip_lease_taken",
		plan.SkipWindowBuffer:         "skip_window_buffer",
		plan.SkipDelayed:              "skip_delayed",
		plan.SkipPaused:               "skip_paused",
	} {
		require.Equal(t, want, string(outcome))
	}
}

package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
)

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

// outcomeCase is a list of candidates and the decision for an intent that takes any
// of them.
type outcomeCase struct {
	name       string
	candidates []plan.Candidate
	want       plan.Outcome
}

func outcomeCases() []outcomeCase {
	both := func(changes ...func(*plan.Candidate)) func(*plan.Candidate) {
		return func(c *plan.Candidate) {
			for _, change := range changes {
				change(c)
			}
		}
	}
	return []outcomeCase{
		{"nothing", nil, plan.SkipNoPartitions},
		{"poppable", []plan.Candidate{due(1, 1)}, plan.ViableAssigned},

		{"leased", []plan.Candidate{held(1, 8, isLeased)}, plan.SkipLeaseTaken},
		{"window open", []plan.Candidate{held(1, 8, isOpen)}, plan.SkipWindowBuffer},
		{"delayed", []plan.Candidate{held(1, 8, isDelayed)}, plan.SkipDelayed},
		{"due later without a flag", []plan.Candidate{held(1, 8, isLater)}, plan.SkipDelayed},
		{"paused", []plan.Candidate{held(1, 8, isPaused)}, plan.SkipPaused},

		{"a lease without a known end", []plan.Candidate{held(1, -1, isLeased)}, plan.SkipLeaseTaken},
		{"delayed until now", []plan.Candidate{held(1, 0, isDelayed)}, plan.SkipDelayed},

		{"the farthest obstacle of one: window", []plan.Candidate{held(1, 8, both(isLeased, isOpen))}, plan.SkipWindowBuffer},
		{"the farthest obstacle of one: delay", []plan.Candidate{held(1, 8, both(isLeased, isOpen, isDelayed))}, plan.SkipDelayed},
		{"the farthest obstacle of one: pause", []plan.Candidate{held(1, 8, both(isLeased, isOpen, isDelayed, isPaused))}, plan.SkipPaused},

		{
			"the nearest of many: lease",
			[]plan.Candidate{held(1, 9, isPaused), held(2, 8, isDelayed), held(3, 7, isOpen), held(4, 9, isLeased)},
			plan.SkipLeaseTaken,
		},
		{
			"the nearest of many: window",
			[]plan.Candidate{held(1, 2, isPaused), held(2, 8, isDelayed), held(3, 9, isOpen)}, plan.SkipWindowBuffer,
		},
		{
			"the nearest of many: delay",
			[]plan.Candidate{held(1, 2, isPaused), held(2, 8, isDelayed)}, plan.SkipDelayed,
		},
		{
			"the nearest of many: poppable",
			[]plan.Candidate{due(1, 1), held(2, 8, isLeased), held(3, 5, isOpen)}, plan.ViableAssigned,
		},
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range outcomeCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			decisions, doubles := plan.Assign(now, 0, []plan.Intent{waiting()}, c.candidates)
			require.Zero(t, doubles)
			require.Equal(t, c.want, decisions[0].Outcome)

			if len(c.candidates) != 1 {
				return
			}
			// An intent that names the partition has the same outcome: other partitions do
			// not matter.
			decisions, _ = plan.Assign(now, 0, []plan.Intent{waiting(only(1))},
				append([]plan.Candidate{due(2, 1), held(3, 1, isLeased)}, c.candidates...))
			require.Equal(t, c.want, decisions[0].Outcome)
		})
	}
}

func TestOutcomeOfIntentsThatGetNothing(t *testing.T) {
	t.Parallel()
	intents := []plan.Intent{
		waiting(), waiting(), // one partition for two
		waiting(only(5)), waiting(only(5)), // the same, by name
		waiting(deadline(0)), waiting(only(5), deadline(0)), // expired
		waiting(only(6)), // no such candidate
	}
	candidates := []plan.Candidate{due(1, 1), due(5, 1), held(2, 9, isLeased)}
	decisions, _ := plan.Assign(now, 0, intents, candidates)
	require.Equal(t, []plan.Decision{
		{Outcome: plan.ViableAssigned, Partitions: []int64{1}},
		{Outcome: plan.SkipPartitionUnavailable},
		{Outcome: plan.ViableAssigned, Partitions: []int64{5}},
		{Outcome: plan.SkipPartitionUnavailable},
		{Outcome: plan.SkipPartitionUnavailable},
		{Outcome: plan.SkipPartitionUnavailable},
		{Outcome: plan.SkipNoPartitions},
	}, decisions)
}

// The only partition went to the intent that named it.
func TestNamedPartitionsAreUnavailableToOtherIntents(t *testing.T) {
	t.Parallel()
	decisions, _ := plan.Assign(now, 0, []plan.Intent{waiting(), waiting(only(5))}, []plan.Candidate{due(5, 1)})
	require.Equal(t, plan.SkipPartitionUnavailable, decisions[0].Outcome)
}

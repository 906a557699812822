package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
)

// scene is one input of Assign.
type scene struct {
	rotate     uint64
	intents    []plan.Intent
	candidates []plan.Candidate
}

// groupPartition is one partition of one group.
type groupPartition struct{ group, partition int64 }

// poppable defines a poppable candidate independently of the code under test.
func poppable(c plan.Candidate) bool {
	return !c.Paused && !c.Delayed && !c.WindowOpen && !c.Leased && !c.ReadyAt.After(now)
}

// merged joins the rows of each partition. A flag is set if one row has it. The greater depth and the later instant are kept.
func (s scene) merged() map[groupPartition]plan.Candidate {
	joined := map[groupPartition]plan.Candidate{}
	for _, c := range s.candidates {
		key := groupPartition{c.Group, c.Partition}
		if old, seen := joined[key]; seen {
			c.Leased, c.WindowOpen = c.Leased || old.Leased, c.WindowOpen || old.WindowOpen
			c.Delayed, c.Paused = c.Delayed || old.Delayed, c.Paused || old.Paused
			c.Depth = max(c.Depth, old.Depth)
			if old.ReadyAt.After(c.ReadyAt) {
				c.ReadyAt = old.ReadyAt
			}
		}
		joined[key] = c
	}
	return joined
}

// bound returns the maximum number of partitions that the intent may get.
func bound(i plan.Intent) int {
	switch {
	case !i.Deadline.After(now):
		return 0
	case i.Key.Partition != 0:
		return 1
	default:
		return max(1, i.Partitions)
	}
}

// could reports whether the intent may get partition p.
func could(i plan.Intent, p groupPartition) bool {
	return i.Key.Group == p.group && (i.Key.Partition == 0 || i.Key.Partition == p.partition)
}

// obey runs Assign and fails the test if the result breaks a promise of the package.
func (s scene) obey(t require.TestingT, seed uint64) {
	before := scene{s.rotate, slices.Clone(s.intents), slices.Clone(s.candidates)}
	decisions, doubles := plan.Assign(now, s.rotate, s.intents, s.candidates)
	require.Equal(t, before, s, "the input is unchanged")

	offered := s.merged()
	require.Equal(t, len(s.candidates)-len(offered), doubles, "every repeated row is counted")
	require.Len(t, decisions, len(s.intents))
	holder := map[groupPartition]int{} // the index of the intent
	for n, d := range decisions {
		i := s.intents[n]
		require.LessOrEqual(t, len(d.Partitions), bound(i), "intent %d got more partitions than it may get", n)
		for _, partition := range d.Partitions {
			p := groupPartition{i.Key.Group, partition}
			require.True(t, could(i, p), "intent %d did not ask for %v", n, p)
			require.Contains(t, offered, p, "%v is not a candidate", p)
			require.True(t, poppable(offered[p]), "%v is not poppable", p)
			require.NotContains(t, holder, p, "%v is given twice", p)
			holder[p] = n
		}
		obeyReason(t, i, d, offered)
	}
	s.obeyOrder(t, decisions, offered, holder)
	s.obeyShuffle(t, decisions, doubles, seed)
}

// obeyReason checks the outcome of one decision.
func obeyReason(t require.TestingT, i plan.Intent, d plan.Decision, offered map[groupPartition]plan.Candidate) {
	want := plan.SkipNoPartitions
	order := []plan.Outcome{
		plan.SkipPartitionUnavailable, plan.SkipLeaseTaken, plan.SkipWindowBuffer,
		plan.SkipDelayed, plan.SkipPaused, plan.SkipNoPartitions,
	}
	for p, c := range offered {
		if !could(i, p) {
			continue
		}
		reason := plan.SkipPartitionUnavailable
		switch {
		case poppable(c):
		case c.Paused:
			reason = plan.SkipPaused
		case c.Delayed:
			reason = plan.SkipDelayed
		case c.WindowOpen:
			reason = plan.SkipWindowBuffer
		case c.Leased:
			reason = plan.SkipLeaseTaken
		default:
			reason = plan.SkipDelayed
		}
		if slices.Index(order, reason) < slices.Index(order, want) {
			want = reason
		}
	}
	if len(d.Partitions) > 0 {
		want = plan.ViableAssigned
	}
	require.Equal(t, want, d.Outcome, "%+v", i)
}

// obeyOrder checks the order of service and the partitions that were given.
func (s scene) obeyOrder(t require.TestingT, decisions []plan.Decision, offered map[groupPartition]plan.Candidate, holder map[groupPartition]int) {
	got := func(i int) int { return len(decisions[i].Partitions) }
	for p, c := range offered {
		owner, owned := holder[p]
		for n, i := range s.intents {
			if !could(i, p) || !poppable(c) || got(n) >= bound(i) {
				continue
			}
			require.True(t, owned, "%v is left over although intent %d wants it", p, n)
			if i.Key.Partition != 0 {
				require.NotZero(t, s.intents[owner].Key.Partition, "%v went to intent %d although intent %d named it", p, owner, n)
				require.Less(t, owner, n, "%v went to a later intent", p)
			}
		}
	}
	for group, takers := range s.takers() {
		for n, a := range takers {
			most := bound(s.intents[a])
			for _, b := range takers[n+1:] {
				require.GreaterOrEqual(t, got(a), min(got(b), most), "intent %d has less than intent %d, which is served later", a, b)
			}
			for _, b := range takers {
				require.GreaterOrEqual(t, got(a), min(got(b)-1, most), "intent %d has two more than intent %d", b, a)
			}
		}
		obeyDepth(t, group, givenOrder(takers, decisions), offered, holder)
	}
}

// takers returns the indexes of the live intents that take any partition, by group.
func (s scene) takers() map[int64][]int {
	takers := map[int64][]int{}
	for n, i := range s.intents {
		if i.Key.Partition == 0 && bound(i) > 0 {
			takers[i.Key.Group] = append(takers[i.Key.Group], n)
		}
	}
	return takers
}

// givenOrder returns the partitions that takers got, in the order in which they were
// given.
func givenOrder(takers []int, decisions []plan.Decision) (order []int64) {
	for turn, more := 0, true; more; turn++ {
		more = false
		for _, i := range takers {
			if partitions := decisions[i].Partitions; turn < len(partitions) {
				order, more = append(order, partitions[turn]), true
			}
		}
	}
	return order
}

// obeyDepth checks that deeper partitions of a group were given first.
func obeyDepth(t require.TestingT, group int64, order []int64, offered map[groupPartition]plan.Candidate,
	holder map[groupPartition]int,
) {
	for n := 1; n < len(order); n++ {
		a, b := offered[groupPartition{group, order[n-1]}], offered[groupPartition{group, order[n]}]
		require.GreaterOrEqual(t, a.Depth, b.Depth, "%d was given before %d", a.Partition, b.Partition)
	}
	if len(order) == 0 {
		return
	}
	last := offered[groupPartition{group, order[len(order)-1]}]
	for p, c := range offered {
		if _, owned := holder[p]; p.group == group && poppable(c) && !owned {
			require.LessOrEqual(t, c.Depth, last.Depth, "%d is left over, %d was given", p.partition, last.Partition)
		}
	}
}

// obeyShuffle checks that another order of the candidates changes nothing.
func (s scene) obeyShuffle(t require.TestingT, decisions []plan.Decision, doubles int, seed uint64) {
	candidates := slices.Clone(s.candidates)
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(candidates), func(a, b int) { candidates[a], candidates[b] = candidates[b], candidates[a] })
	again, doublesAgain := plan.Assign(now, s.rotate, s.intents, candidates)
	require.Equal(t, doubles, doublesAgain)
	require.Equal(t, decisions, again, "the order of the candidates changed the result")
}

// These scenes are large enough to contain grants, skips and repetitions of every
// kind. So the laws are tested with every outcome.
func TestAssignKeepsItsPromisesInLargeScenes(t *testing.T) {
	t.Parallel()
	seen := map[plan.Outcome]int{}
	for seed := range uint64(50) {
		s := largeScene(seed)
		s.obey(t, seed)
		decisions, doubles := plan.Assign(now, s.rotate, s.intents, s.candidates)
		require.Positive(t, doubles)
		for _, d := range decisions {
			seen[d.Outcome]++
		}
	}
	require.Len(t, seen, 7, "every outcome occurs: %v", seen)
}

// largeScene is a scene of 120 intents and 120 candidates that often compete.
func largeScene(seed uint64) scene {
	random := rand.New(rand.NewPCG(seed, 2))
	data := make([]byte, 2+120*(intentBytes+candidateBytes))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	data[1] = 120
	return sceneOf(data)
}

package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
)

// drawScene draws the bytes of a scene, so that names, deadlines and depths often coincide.
func drawScene(t *rapid.T) scene {
	return sceneOf(rapid.SliceOfN(rapid.Byte(), 0, 2+12*intentBytes+16*candidateBytes).Draw(t, "bytes"))
}

func TestAssignKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drawScene(t).obey(t, rapid.Uint64().Draw(t, "shuffle"))
	})
}

// As rotate increments, each intent gets each of the equally deep partitions, also if
// there are partitions of other depths.
func TestEquallyDeepPartitionsTakeTurns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		equal := rapid.IntRange(1, 7).Draw(t, "equal")
		asking := rapid.IntRange(1, equal).Draw(t, "asking")
		deeper := rapid.IntRange(0, 2).Draw(t, "deeper")
		var s scene
		s.intents = slices.Repeat([]plan.Intent{waiting()}, deeper+asking)
		for i := range deeper {
			s.candidates = append(s.candidates, due(int64(100+i), 9))
		}
		for i := range equal {
			s.candidates = append(s.candidates, due(int64(1+i), 5))
		}
		s.candidates = append(s.candidates, due(50, 1))
		start := rapid.Uint64Max(1<<60).Draw(t, "start")
		turns := map[groupPartition]bool{} // here group is the index of the intent
		for round := range uint64(equal) {
			decisions, _ := plan.Assign(now, start+round, s.intents, s.candidates)
			for i, d := range decisions[deeper:] {
				require.Len(t, d.Partitions, 1)
				turns[groupPartition{int64(i), d.Partitions[0]}] = true
			}
		}
		require.Len(t, turns, asking*equal, "each intent got each partition: %v", turns)
	})
}

// Adding one duration to all instants changes no result.
func TestOnlyDifferencesOfTimeMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		shift := time.Duration(rapid.Int64Range(-1e17, 1e17).Draw(t, "shift"))
		want, doubles := plan.Assign(now, s.rotate, s.intents, s.candidates)
		for i := range s.intents {
			s.intents[i].Deadline = s.intents[i].Deadline.Add(shift)
		}
		for i := range s.candidates {
			s.candidates[i].ReadyAt = s.candidates[i].ReadyAt.Add(shift)
		}
		got, shiftedDoubles := plan.Assign(now.Add(shift), s.rotate, s.intents, s.candidates)
		require.Equal(t, want, got)
		require.Equal(t, doubles, shiftedDoubles)
	})
}

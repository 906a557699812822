package plan_test

import (
	"math/rand/v2"
	"testing"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
)

// BenchmarkAssign decides 10,000 intents with 10,000 candidates. The budget is 50 ms
// per round.
func BenchmarkAssign(b *testing.B) {
	const size = 10_000
	for _, shape := range []struct {
		name   string
		intent func(i int, intent *plan.Intent)
		row    func(i int, c *plan.Candidate)
	}{
		{"one_group", func(int, *plan.Intent) {}, func(i int, c *plan.Candidate) { c.Depth = int64(i % 100) }},
		{"equal_depths", func(int, *plan.Intent) {}, func(int, *plan.Candidate) {}},
		{
			"a_group_each",
			func(i int, intent *plan.Intent) { intent.Key.Group = int64(i) },
			func(i int, c *plan.Candidate) { c.Group = int64(i) },
		},
		{
			"hundred_groups",
			func(i int, intent *plan.Intent) { intent.Key.Group, intent.Partitions = int64(i%100), 4 },
			func(i int, c *plan.Candidate) { c.Group, c.Leased = int64(i%100), i%3 == 0 },
		},
		{"all_named", func(i int, intent *plan.Intent) { intent.Key.Partition = int64(i) + 1 }, func(int, *plan.Candidate) {}},
		{"all_name_the_same", func(_ int, intent *plan.Intent) { intent.Key.Partition = 1 }, func(int, *plan.Candidate) {}},
		{"nothing_poppable", func(int, *plan.Intent) {}, func(_ int, c *plan.Candidate) { c.Leased = true }},
		{"one_row_repeated", func(int, *plan.Intent) {}, func(_ int, c *plan.Candidate) { c.Partition = 1 }},
		{
			"one_takes_all",
			func(i int, intent *plan.Intent) {
				if i == 0 {
					intent.Partitions = size
				} else {
					intent.Deadline = now
				}
			},
			func(int, *plan.Candidate) {},
		},
	} {
		b.Run(shape.name, func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			intents, candidates := make([]plan.Intent, size), make([]plan.Candidate, size)
			for i := range size {
				intents[i] = waiting(deadline(1 + random.IntN(30)))
				candidates[i] = due(int64(i)+1, 5)
				shape.intent(i, &intents[i])
				shape.row(i, &candidates[i])
			}
			random.Shuffle(size, func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
			b.ReportAllocs()
			for rotate := uint64(0); b.Loop(); rotate++ {
				plan.Assign(now, rotate, intents, candidates)
			}
		})
	}
}

package dispatch

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// plan decides which intent gets which partition. There is one decision for each intent, in the
// same order.
func (w *worker) plan(waiting []*roundIntent, targets []roundTarget) []plan.Decision {
	now := time.Now()
	intents := make([]plan.Intent, len(waiting))
	for i, r := range waiting {
		intents[i] = plan.Intent{
			Key:        plan.Key{Group: r.target.Group, Partition: r.target.Partition},
			Partitions: r.req.Partitions, Deadline: r.deadline,
		}
	}
	candidates, due := mergeCandidates(now, targets)
	decisions, doubled := plan.Assign(now, w.round, intents, candidates)
	m := w.d.Metrics
	m.partitionsFound.Observe(float64(due))
	m.doubleAssignments.Add(float64(doubled))
	for i := range decisions {
		if decisions[i].Outcome == plan.ViableAssigned {
			m.viable.Inc()
			m.assignments.Add(float64(len(decisions[i].Partitions)))
		} else {
			m.skipped.WithLabelValues(string(decisions[i].Outcome)).Inc()
		}
	}
	m.ratio.Set(float64(len(waiting)) / float64(max(1, len(targets))))
	return decisions
}

// mergeCandidates makes one list of the candidates of all targets. A partition that was found for
// itself and for its group is one candidate. due counts the candidates that are due now.
func mergeCandidates(now time.Time, targets []roundTarget) (candidates []plan.Candidate, due int) {
	seen := map[queue.Target]bool{}
	for _, t := range targets {
		for _, c := range t.result.Candidates {
			partition := queue.Target{Group: t.target.Group, Partition: c.Partition}
			if seen[partition] {
				continue
			}
			seen[partition] = true
			if c.In <= 0 {
				due++
			}
			candidates = append(candidates, plan.Candidate{
				Group: partition.Group, Partition: partition.Partition, ReadyAt: now.Add(c.In), Depth: c.Depth,
				Leased: c.In > 0 && c.Leased, WindowOpen: c.In > 0 && c.WindowOpen,
				Delayed: c.In > 0 && !c.Leased && !c.WindowOpen, Paused: c.Paused,
			})
		}
	}
	return candidates, due
}

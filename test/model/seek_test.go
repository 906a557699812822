package model_test

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// target is the target of a seek: the beginning of the log, its end, or the position after all messages stored before a
// step.
type target struct {
	beginning, end bool
	step           int
}

// seek moves the cursor of a group in a partition and ends its lease.
func (w *world) seek(p *partition, c *cursor, to target) {
	upto := p.last()
	switch {
	case to.beginning:
		upto = p.trimmed
	case !to.end:
		upto = p.before(to.step)
	}
	if upto > c.committed {
		c.skip = slices.DeleteFunc(c.skip, func(seq int64) bool { return seq <= upto })
	} else {
		c.skip = nil
	}
	c.committed, c.attempts, c.failures, c.delayed, c.aloneUntil = upto, 0, 0, false, 0
	w.recomputeReady(p, c)
}

// seek moves a group back or forward, in one partition or in all.
func (m *machine) seek(r *rapid.T) {
	m.step()
	group := rapid.SampledFrom(groups).Draw(r, "group")
	var to target
	var where catalog.Position
	switch rapid.IntRange(0, 5).Draw(r, "to") {
	case 0:
		to.end, where.End = true, true
	case 1:
		to.beginning = true
	default:
		to.step = rapid.IntRange(max(1, m.world.step-12), m.world.step).Draw(r, "instant")
		where.After = m.began[to.step-1]
	}
	name := rapid.SampledFrom(append([]string{""}, partitions...)).Draw(r, "partition")
	verb := fmt.Sprintf("seek %s in %q to %+v", group, name, to)
	if name == "" {
		moved, err := m.catalog.Seek(m.t.Context(), m.queue, group, where)
		require.NoError(r, err)
		var want int64
		for _, p := range m.world.partitions {
			if c := p.cursors[group]; c != nil {
				m.world.seek(p, c, to)
				want++
			}
		}
		m.agree(r, verb, fmt.Sprint(want), fmt.Sprint(moved))
		return
	}
	got, err := m.catalog.SeekPartition(m.t.Context(), m.queue, group, name, where)
	want := "Partition not found"
	if p := m.world.partitions[name]; p != nil {
		want = "false behind nothing"
		if c := p.cursors[group]; c != nil {
			m.world.seek(p, c, to)
			want = "true behind " + p.behind(c.committed)
		}
	}
	text := "Partition not found"
	if queue.CodeOf(err) != queue.CodeNotFound {
		require.NoError(r, err)
		text = fmt.Sprintf("%t behind nothing", got.Moved)
		if !got.Place.IsZero() {
			text = fmt.Sprintf("%t behind a message", got.Moved)
		}
	}
	m.agree(r, verb, want, text)
}

// behind says whether a message exists before a cursor at seq. The newest message counts even if it is deleted.
func (p *partition) behind(seq int64) string {
	for at := seq; at > 0; at-- {
		if at == p.last() || !p.log[at-1].gone {
			return "a message"
		}
	}
	return "nothing"
}

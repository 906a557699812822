package model_test

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// goal is where a seek goes: before or behind the log, or behind what was stored
// before a step.
type goal struct {
	beginning, end bool
	step           int
}

// seek moves the cursor of a group in a partition; nothing is leased then.
func (w *world) seek(l *lane, p *place, to goal) {
	upto := l.last()
	switch {
	case to.beginning:
		upto = l.trimmed
	case !to.end:
		upto = l.before(to.step)
	}
	if upto > p.committed {
		p.skip = slices.DeleteFunc(p.skip, func(seq int64) bool { return seq <= upto })
	} else {
		p.skip = nil
	}
	p.committed, p.attempts, p.failures, p.rests, p.aloneUntil = upto, 0, 0, false, 0
	w.rearm(l, p)
}

// seek moves a group in one partition or in all, back or forward.
func (m *machine) seek(r *rapid.T) {
	m.step()
	group := rapid.SampledFrom(groups).Draw(r, "group")
	var to goal
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
		for _, l := range m.world.lanes {
			if p := l.places[group]; p != nil {
				m.world.seek(l, p, to)
				want++
			}
		}
		m.agree(r, verb, fmt.Sprint(want), fmt.Sprint(moved))
		return
	}
	got, err := m.catalog.SeekPartition(m.t.Context(), m.queue, group, name, where)
	want := "Partition not found"
	if l := m.world.lanes[name]; l != nil {
		want = "false behind nothing"
		if p := l.places[group]; p != nil {
			m.world.seek(l, p, to)
			want = "true behind " + l.at(p.committed)
		}
	}
	said := "Partition not found"
	if queue.CodeOf(err) != queue.CodeNotFound {
		require.NoError(r, err)
		said = fmt.Sprintf("%t behind nothing", got.Moved)
		if !got.Message.IsZero() {
			said = fmt.Sprintf("%t behind %s", got.Moved, m.names.message(got.Message))
		}
	}
	m.agree(r, verb, want, said)
}

// at names the message at a place of the log.
func (l *lane) at(seq int64) string {
	if seq == 0 || l.log[seq-1].gone {
		return "nothing"
	}
	return fmt.Sprintf("%s#%d", l.name, seq)
}

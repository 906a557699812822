package model_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// pause pauses a queue, a partition or a group, pops once, and resumes. The pop of a paused partition clears an expired
// lease of the cursor. The resume makes the cursor ready again. Nothing else changes.
func (m *machine) pause(r *rapid.T) {
	s := m.store(r)
	name, group := rapid.SampledFrom(partitions).Draw(r, "partition"), rapid.SampledFrom(groups).Draw(r, "group")
	p := m.world.partitions[name]
	if p == nil || p.cursors[group] == nil {
		return
	}
	what := catalog.Pausable{Queue: m.queue}
	want := rapid.SampledFrom([]explain.Code{explain.QueuePaused, explain.PartitionPaused, explain.GroupPaused}).Draw(r, "what")
	switch want {
	case explain.PartitionPaused:
		what.Partition = name
	case explain.GroupPaused:
		what.Group = group
	default:
	}
	set := func(paused bool) {
		changed, err := m.catalog.SetPaused(m.t.Context(), what, paused, "")
		require.NoError(r, err)
		require.True(r, changed)
	}
	set(true)
	why, err := m.explainer.Explain(m.t.Context(), explain.Question{Queue: m.queue, Partition: name, Group: group}, explain.Instance{})
	require.NoError(r, err)
	require.Equal(r, want, why.Code)
	d, err := s.Pop(m.t.Context(), &queue.PopRequest{Queue: m.queue, Partition: &name, Group: group, Batch: 1, Partitions: 1})
	require.NoError(r, err)
	require.Empty(r, d.Messages)
	set(false)
	if c := p.cursors[group]; want == explain.PartitionPaused && c.due > 0 {
		m.world.recomputeReady(p, c)
	}
	r.Logf("%s of %s in %s for one pop", want, group, name)
}

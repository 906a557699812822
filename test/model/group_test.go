package model_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// subscription is the stored subscription of a consumer group.
type subscription struct {
	// start is the step at which the group starts. The group does not receive older messages. 0 means that it receives all
	// messages.
	start int
	// whole means that the group reads every partition. kept means that the group was deleted but its subscription remains.
	// A new group of that name then starts where the subscription says.
	whole, kept bool
}

// subscribe stores the subscription of a pop if none is stored. It returns the start of new cursors.
func (w *world) subscribe(group string, whole, onlyNew bool) (start int) {
	if onlyNew {
		start = w.step
	}
	sub, known := w.subs[group]
	switch {
	case !known:
		sub = subscription{start: start, whole: whole}
	case whole && !sub.whole:
		sub.whole = true
		if !sub.kept {
			sub.start = start
		}
	}
	w.subs[group] = sub
	if sub.whole || sub.kept {
		return sub.start
	}
	return start
}

// deleteGroup removes a group and returns the number of deleted cursors.
func (w *world) deleteGroup(group string, keep bool) (cursors int64) {
	for _, p := range w.partitions {
		if p.cursors[group] != nil {
			cursors++
		}
		delete(p.cursors, group)
	}
	sub := w.subs[group]
	delete(w.subs, group)
	if keep && sub.start > 0 {
		w.subs[group] = subscription{start: sub.start, kept: true}
	}
	return cursors
}

const countLeftovers = `
SELECT (SELECT count(*) FROM belfry.group_deleted)
     + (SELECT count(*) FROM belfry.cursor c WHERE NOT EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.id = c.group_id))
     + (SELECT count(*) FROM belfry.redrive r WHERE NOT EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.id = r.group_id))
     + (SELECT count(*) FROM belfry.dead_letter d WHERE NOT EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.id = d.group_id))`

// deleteGroup deletes a group, with or without its subscription. The test draws whether its rows are purged at once.
func (m *machine) deleteGroup(r *rapid.T) {
	m.step()
	if rapid.IntRange(0, 1).Draw(r, "seldom") == 0 { // half of the draws do nothing, so that groups live long enough to have a history
		return
	}
	group, keep := rapid.SampledFrom(groups).Draw(r, "group"), rapid.Bool().Draw(r, "keep")
	deleted, err := m.catalog.DeleteGroup(m.t.Context(), group, &m.queue, keep)
	require.NoError(r, err)
	want := m.world.deleteGroup(group, keep)
	if rapid.Bool().Draw(r, "purge") {
		require.NoError(r, m.catalog.Purge(m.t.Context()))
		var left int
		require.NoError(r, m.pool.QueryRow(m.t.Context(), countLeftovers).Scan(&left))
		require.Zero(r, left, "rows of deleted groups remain")
	}
	m.agree(r, fmt.Sprintf("delete group %s, keep %t", group, keep), fmt.Sprint(want), fmt.Sprint(deleted.Cursors))
}

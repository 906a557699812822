package catalog_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// operator returns a context of a request of a person, and the id of its entry in the audit.
func operator(t *testing.T, target audit.Target) (context.Context, queue.ID) {
	t.Helper()
	e := audit.New(enginetest.Context(t), nil, "test", "127.0.0.1", "r1")
	ctx := audit.With(enginetest.Context(t), e)
	audit.Begin(ctx, target, nil)
	return ctx, e.ID
}

// undo finds and undoes a change. The preview must promise the same.
func (r *fixture) undo(id queue.ID) (catalog.Undone, queue.ID, error) {
	r.t.Helper()
	found, err := r.FindUndo(enginetest.Context(r.t), id)
	if err != nil {
		return catalog.Undone{}, queue.ID{}, err
	}
	promised, refusal := r.PreviewUndo(enginetest.Context(r.t), &found)
	ctx, by := operator(r.t, found.Target)
	done, err := r.Undo(ctx, &found)
	if err == nil && promised.Places != nil {
		promised.Places.Leases = 0
	}
	if refusal != nil {
		require.EqualError(r.t, err, refusal.Error())
	} else if err == nil {
		require.Equal(r.t, promised, done)
	}
	return done, by, err
}

func (r *fixture) refused(id queue.ID, want string) {
	r.t.Helper()
	_, _, err := r.undo(id)
	require.Equal(r.t, queue.CodeConflict, queue.CodeOf(err), "%v", err)
	require.ErrorContains(r.t, err, want)
}

// changeOptions changes options of a queue for a person.
func (r *fixture) changeOptions(name string, edit func(*catalog.Settings)) queue.ID {
	r.t.Helper()
	ctx, id := operator(r.t, audit.Target{Queue: name})
	_, _, err := r.Change(ctx, name, edit)
	require.NoError(r.t, err)
	return id
}

func TestAChangeOfOptionsIsUndone(t *testing.T) {
	r := newFixture(t)
	r.configure("q")
	lease := func() int64 { return r.number(`SELECT lease_time FROM belfry.queue WHERE name = 'q'`) }
	before := lease()
	first := r.changeOptions("q", func(set *catalog.Settings) { set.Options.LeaseTime, set.Namespace = 60, "shop" })
	second := r.changeOptions("q", func(set *catalog.Settings) { set.Options.RetryLimit = 3 })
	nothing := r.changeOptions("q", func(set *catalog.Settings) { set.Options.RetryLimit = 3 })
	r.refused(nothing, "the change has no old values")

	done, by, err := r.undo(first)
	require.NoError(t, err)
	require.Equal(t, before, lease())
	require.Equal(t, []catalog.UndoneValue{
		{Name: "leaseTime", Now: json.RawMessage("60"), Then: json.RawMessage("300")},
		{Name: "namespace", Now: json.RawMessage(`"shop"`), Then: json.RawMessage(`""`)},
	}, done.Values)
	require.Equal(t, int64(3), r.number(`SELECT retry_limit FROM belfry.queue WHERE name = 'q'`), "the later change stays")
	r.refused(first, "undone already: the audit has the undo as "+by.String())

	_, _, err = r.undo(by) // the undo of the undo
	require.NoError(t, err)
	require.Equal(t, int64(60), lease())

	third := r.changeOptions("q", func(set *catalog.Settings) { set.Options.RetryLimit = 9 })
	r.refused(second, "retryLimit was changed again since: it is 9 now, and the change made it 3")
	existed, err := r.Delete(enginetest.Context(t), "q")
	require.NoError(t, err)
	require.True(t, existed)
	r.refused(third, `the queue "q" was deleted since`)
	_, err = r.FindUndo(enginetest.Context(t), queue.NewID())
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(err))

	entries := r.number(`SELECT count(*) FROM belfry.audit_undo`)
	r.configure("q") // no person
	_, _, err = r.Change(enginetest.Context(t), "q", func(set *catalog.Settings) { set.Options.TTL = 7 })
	require.NoError(t, err)
	require.Equal(t, entries, r.number(`SELECT count(*) FROM belfry.audit_undo`), "old values were kept for a change that no person made")
	ctx, id := operator(t, audit.Target{Queue: "q"})
	_, err = r.Configure(ctx, settings("q")) // replaces all options
	require.NoError(t, err)
	_, _, err = r.undo(id)
	require.NoError(t, err)
	require.Equal(t, int64(7), r.number(`SELECT ttl FROM belfry.queue WHERE name = 'q' AND deleted_at IS NULL`))
}

func TestAPauseIsUndone(t *testing.T) {
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("q")), size{partitions: 2, messages: 1, groups: 1})
	for _, what := range []catalog.Pausable{{Queue: "q"}, {Queue: "q", Partition: "p1"}, {Queue: "q", Group: "g1"}} {
		pause := func(paused bool, reason string) queue.ID {
			ctx, id := operator(t, audit.Target{Queue: what.Queue, Partition: what.Partition, Group: what.Group})
			_, err := r.SetPaused(ctx, what, paused, reason)
			require.NoError(t, err)
			return id
		}
		paused := func(reason string) int64 {
			return r.number(`SELECT (SELECT count(*) FROM belfry.queue WHERE paused AND pause_reason = $1)
				+ (SELECT count(*) FROM belfry.partition WHERE paused AND pause_reason = $1)
				+ (SELECT count(*) FROM belfry.consumer_group WHERE paused AND pause_reason = $1)`, reason)
		}
		first := pause(true, "broken")
		r.refused(pause(true, "again"), "no old values")
		require.Equal(t, int64(1), paused("broken"))
		resumed := pause(false, "")
		require.Zero(t, paused("broken"))
		r.refused(first, "it was resumed since")
		done, by, err := r.undo(resumed)
		require.NoError(t, err)
		require.Equal(t, int64(1), paused("broken"), "a pause comes back with its reason")
		require.Equal(t, []catalog.UndoneValue{
			{Name: "paused", Now: json.RawMessage("false"), Then: json.RawMessage("true")},
			{Name: "reason", Now: json.RawMessage(`""`), Then: json.RawMessage(`"broken"`)},
		}, done.Values)
		pause(false, "")
		pause(true, "other")
		r.refused(by, `resumed and paused again since, for the reason "other"`)
		pause(false, "")
	}
	ctx, id := operator(t, audit.Target{Queue: "q", Partition: "p2"})
	_, err := r.SetPaused(ctx, catalog.Pausable{Queue: "q", Partition: "p2"}, true, "")
	require.NoError(t, err)
	r.exec(`DELETE FROM belfry.cursor`)
	r.exec(`DELETE FROM belfry.partition WHERE name = 'p2'`)
	r.refused(id, `the partition "p2" was deleted since`)
}

// moveGroup seeks group g1 of queue q for a person.
func (r *fixture) moveGroup(to catalog.Position) queue.ID {
	r.t.Helper()
	ctx, id := operator(r.t, audit.Target{Queue: "q", Group: "g1"})
	_, err := r.Seek(ctx, "q", "g1", to)
	require.NoError(r.t, err)
	return id
}

func TestASeekIsUndone(t *testing.T) {
	r := newFixture(t)
	const partitions = 1500 // two pages
	r.fill(r.queueKey(r.configure("q")), size{partitions: partitions, messages: 5, groups: 2})
	r.exec(`UPDATE belfry.cursor SET committed = partition_id % 4`)
	places := func() (n int64) {
		return r.number(`SELECT count(*) FROM belfry.cursor c JOIN belfry.consumer_group g ON g.id = c.group_id WHERE c.committed = c.partition_id % 4 AND g.name = 'g1'`)
	}
	left := r.number(`SELECT sum(5 - c.committed) FROM belfry.cursor c JOIN belfry.consumer_group g ON g.id = c.group_id WHERE g.name = 'g1'`)

	end := r.moveGroup(catalog.Position{End: true})
	require.Zero(t, places())
	done, by, err := r.undo(end)
	require.NoError(t, err)
	require.Equal(t, &catalog.UndonePlaces{Back: partitions, Again: left}, done.Places)
	require.Equal(t, int64(partitions), places())
	require.Zero(t, r.number(`SELECT count(*) FROM belfry.cursor WHERE ready_at IS NULL`), "every partition has messages, and its cursor is ready")
	r.refused(end, "undone already")

	done, _, err = r.undo(by) // to the end again
	require.NoError(t, err)
	require.Equal(t, &catalog.UndonePlaces{Forward: partitions, Skipped: left}, done.Places)

	start := r.moveGroup(catalog.Position{}) // a replay; then the group consumes one partition beyond its old position
	r.exec(`UPDATE belfry.cursor SET committed = 5 WHERE partition_id = (SELECT id FROM belfry.partition WHERE name = 'p7')`)
	r.exec(`DELETE FROM belfry.cursor WHERE partition_id = (SELECT id FROM belfry.partition WHERE name = 'p8')`)
	done, _, err = r.undo(start)
	require.NoError(t, err)
	require.Equal(t, &catalog.UndonePlaces{Forward: partitions - 2, Gone: 1, Skipped: 5 * (partitions - 2)}, done.Places)

	first := r.moveGroup(catalog.Position{})
	second := r.moveGroup(catalog.Position{End: true})
	r.refused(first, "moved again since: the audit has the later move as "+second.String())
	require.Equal(t, int64(partitions-1), r.number(`SELECT sum(cardinality(partitions)) FROM belfry.audit_places`),
		"only the latest move of a group keeps its places")
	for _, partition := range []string{"p1", "p2"} { // moves of other partitions do not touch each other
		ctx, id := operator(t, audit.Target{Queue: "q", Group: "g1", Partition: partition})
		_, err := r.SeekPartition(ctx, "q", "g1", partition, catalog.Position{})
		require.NoError(t, err)
		if first = id; partition == "p1" {
			second = id
		}
	}
	done, _, err = r.undo(second)
	require.NoError(t, err)
	require.Equal(t, &catalog.UndonePlaces{Forward: 1, Skipped: 5}, done.Places)

	_, err = r.DeleteGroup(enginetest.Context(t), "g1", nil, false)
	require.NoError(t, err)
	r.refused(first, `the group "g1" was deleted since`)
	r.exec(`DELETE FROM belfry.audit`) // as the retention of the audit does
	require.Zero(t, r.number(`SELECT (SELECT count(*) FROM belfry.audit_undo) + (SELECT count(*) FROM belfry.audit_places)`))
}

func TestALargeSeekKeepsNoPlaces(t *testing.T) {
	r := newFixture(t)
	r.LimitUndo(1200)
	r.fill(r.queueKey(r.configure("q")), size{partitions: 1500, messages: 1, groups: 1})
	r.refused(r.moveGroup(catalog.Position{End: true}), "the seek moved 1500 cursors: the places of a seek of more than 1200 cursors are not kept")
	require.Zero(t, r.number(`SELECT count(*) FROM belfry.audit_places`))
}

// A seek during an undo: the undo refuses to overwrite it.
func TestAnUndoDoesNotOverwriteALaterSeek(t *testing.T) {
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("q")), size{partitions: 2, messages: 3, groups: 1})
	end := r.moveGroup(catalog.Position{End: true})
	found, err := r.FindUndo(enginetest.Context(t), end)
	require.NoError(t, err)
	r.moveGroup(catalog.Position{})
	ctx, _ := operator(t, found.Target)
	_, err = r.Undo(ctx, &found)
	require.Equal(t, queue.CodeConflict, queue.CodeOf(err), "%v", err)
}

package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A restored backup may undo a deletion while a purge runs. The purge then deletes no row of the
// restored queue.
func TestPurgeDeletesNothingThatIsNotMarkedAsDeleted(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	key := r.queueKey(r.configure("q"))
	r.fill(key, size{partitions: 1, messages: 2, groups: 1, deadLetters: 1})
	r.exec(`INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts) SELECT c.partition_id, c.group_id, 1, 0, 0 FROM belfry.cursor c`)
	r.exec(`INSERT INTO belfry.trace (id, partition_id, seq, group_name, event_type, worker, names, data)
		SELECT gen_random_uuid(), p.id, 1, 'g1', 'x', 'w', '{}', '{}' FROM belfry.partition p WHERE p.name = 'p1'`)
	ids := []int64{r.number(`SELECT id FROM belfry.partition WHERE name = 'p1'`)}
	group := r.number(`SELECT id FROM belfry.consumer_group`)
	for query, args := range map[string][]any{
		"engine/catalog/messages_purge": {ids, 10}, "engine/catalog/dead_letters_purge": {ids, 10}, "engine/catalog/redrives_purge": {ids, 10}, "engine/catalog/traces_purge": {ids, 10},
		"engine/catalog/partitions_close": {key, 10, ""}, "engine/catalog/partitions_purge": {ids}, "engine/catalog/groups_purge": {key}, "engine/catalog/queue_purge": {key},
		"engine/catalog/group_cursors_purge": {ids, group}, "engine/catalog/group_redrives_purge": {ids, group, 10}, "engine/catalog/group_dead_letters_purge": {ids, group, 10},
	} {
		tag, err := r.conn.Exec(enginetest.Context(t), sql.Query(query), args...)
		require.NoError(t, err, query)
		require.Zero(t, tag.RowsAffected(), query)
	}
}

// The epoch changes with every statement, so the ids that the first statement found are not valid
// in the next one.
func TestVerbsChangeNothingInAnotherEpoch(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fill(r.queueKey(r.configure("q")), size{partitions: 2, messages: 3, groups: 1})
	r.exec(`UPDATE belfry.cursor SET committed = 1`)
	r.exec(`CREATE SEQUENCE belfry.test_epochs; CREATE OR REPLACE FUNCTION belfry.epoch() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT nextval('belfry.test_epochs') $$`)
	name := "q"
	_, err := r.Seek(enginetest.Context(t), "q", "g1", catalog.Position{End: true})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	_, err = r.SeekPartition(enginetest.Context(t), "q", "g1", "p1", catalog.Position{End: true})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	_, err = r.DeleteGroup(enginetest.Context(t), "g1", &name, false)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	require.Equal(t, int64(1), r.number(`SELECT max(committed) FROM belfry.cursor`))
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.consumer_group`))
}

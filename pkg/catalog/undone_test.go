package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// A deletion may be undone under a purge that is at work, by a backup that is put back.
// Then nothing of what is alive again is deleted.
func TestPurgesLeaveWhatIsNotDeleted(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	key := r.queueKey(r.configure("q"))
	r.fill(key, size{partitions: 1, messages: 2, groups: 1, deadLetters: 1})
	r.exec(`INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts) SELECT c.partition_id, c.group_id, 1, 0, 0 FROM belfry.cursor c`)
	r.exec(`INSERT INTO belfry.trace (id, partition_id, seq, group_name, event_type, worker, names, data)
		SELECT gen_random_uuid(), p.id, 1, 'g1', 'x', 'w', '{}', '{}' FROM belfry.partition p WHERE p.name = 'p1'`)
	ids := []int64{r.number(`SELECT id FROM belfry.partition WHERE name = 'p1'`)}
	group := r.number(`SELECT id FROM belfry.consumer_group`)
	for query, args := range map[string][]any{
		"catalog/messages_purge": {ids, 10}, "catalog/dead_letters_purge": {ids, 10}, "catalog/redrives_purge": {ids, 10}, "catalog/traces_purge": {ids, 10},
		"catalog/partitions_close": {key, 10, ""}, "catalog/partitions_purge": {ids}, "catalog/groups_purge": {key}, "catalog/queue_purge": {key},
		"catalog/group_cursors_purge": {ids, group}, "catalog/group_redrives_purge": {ids, group, 10}, "catalog/group_dead_letters_purge": {ids, group, 10},
	} {
		tag, err := r.conn.Exec(soon(t), sql.Query(query), args...)
		require.NoError(t, err, query)
		require.Zero(t, tag.RowsAffected(), query)
	}
}

// Each statement of what a caller asks for is in another life of the database, in which
// the ids that the first one found stand for something else.
func TestWhatWasFoundInAnotherLifeIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.fill(r.queueKey(r.configure("q")), size{partitions: 2, messages: 3, groups: 1})
	r.exec(`UPDATE belfry.cursor SET committed = 1`)
	r.exec(`CREATE SEQUENCE belfry.lives; CREATE OR REPLACE FUNCTION belfry.epoch() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT nextval('belfry.lives') $$`)
	name := "q"
	_, err := r.Seek(soon(t), "q", "g1", catalog.Place{End: true})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	_, err = r.SeekPartition(soon(t), "q", "g1", "p1", catalog.Place{End: true})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	_, err = r.DeleteGroup(soon(t), "g1", &name, false)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	require.Equal(t, int64(1), r.number(`SELECT max(committed) FROM belfry.cursor`))
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.consumer_group`))
}

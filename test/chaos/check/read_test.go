package check_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// fillTables stores a queue q with three partitions, another queue, and a deleted queue. The second partition is
// empty. The third partition has no cursor of the group g.
const fillTables = `
INSERT INTO belfry.queue (name) VALUES ('q'), ('other');
INSERT INTO belfry.queue (name, deleted_at) VALUES ('q', now());
INSERT INTO belfry.partition (queue_id, name, last_seq)
SELECT q.id, p.name, p.last_seq
  FROM belfry.queue q, (VALUES ('p', 2), ('p2', 0), ('p3', 1)) AS p(name, last_seq);
INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
SELECT p.id, n, now(), ('00000000-0000-0000-0000-00000000000' || n)::uuid, 't' || n, '{}'
  FROM belfry.partition p, generate_series(1, 2) AS n WHERE n <= p.last_seq;
INSERT INTO belfry.consumer_group (queue_id, name, mode, whole_queue)
SELECT q.id, g.name, g.mode, g.whole
  FROM belfry.queue q, (VALUES ('g', 'all', true), ('late', 'new', false)) AS g(name, mode, whole);
INSERT INTO belfry.cursor (partition_id, group_id, committed, consumed)
SELECT p.id, g.id, 1, 1
  FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id
 WHERE p.name = 'p' OR p.name = 'p2' AND g.name = 'g';
INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts)
SELECT p.id, n, g.id, 1
  FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id, generate_series(1, 2) AS n
 WHERE p.name = 'p' AND g.name = 'g';
`

func TestReadStateReadsTheTables(t *testing.T) {
	t.Parallel()
	pool := database(t)
	_, err := pool.Exec(t.Context(), fillTables)
	require.NoError(t, err)

	state, err := check.ReadState(t.Context(), pool, []string{"q", "unknown"})
	require.NoError(t, err)
	for i := range state.Partitions {
		require.Positive(t, state.Partitions[i].ID)
		state.Partitions[i].ID = 0
		for j := range state.Partitions[i].Log {
			require.WithinDuration(t, time.Now(), state.Partitions[i].Log[j].CreatedAt, time.Minute)
			state.Partitions[i].Log[j].CreatedAt = time.Time{}
		}
	}
	message := func(n int64, id string) check.Message {
		return check.Message{Seq: n, MessageID: "00000000-0000-0000-0000-00000000000" + id[1:], TransactionID: id}
	}
	require.Equal(t, []check.Partition{
		{
			Queue: "q", Name: "p", LastSeq: 2, Log: []check.Message{message(1, "t1"), message(2, "t2")},
			Cursors: []check.Cursor{
				{Group: "g", FromStart: true, Committed: 1, Consumed: 1, Dead: []int64{1, 2}, Redriven: []int64{}},
				{Group: "late", Committed: 1, Consumed: 1, Dead: []int64{}, Redriven: []int64{}},
			},
		},
		{Queue: "q", Name: "p2", Cursors: []check.Cursor{{Group: "g", FromStart: true, Committed: 1, Consumed: 1, Dead: []int64{}, Redriven: []int64{}}}},
		{
			Queue: "q", Name: "p3", LastSeq: 1, Log: []check.Message{message(1, "t1")},
			Cursors: []check.Cursor{{Group: "g", Missing: true, FromStart: true, Dead: []int64{}, Redriven: []int64{}}},
		},
	}, state.Partitions)

	clock := 7 * time.Second
	samples, err := check.ReadSamples(t.Context(), pool, []string{"q"}, func() time.Duration { return clock })
	require.NoError(t, err)
	for i := range samples {
		require.Positive(t, samples[i].ID)
		samples[i].ID = 0
	}
	require.ElementsMatch(t, []check.Sample{
		{At: clock, Queue: "q", Partition: "p", Group: "g", Committed: 1, LastSeq: 2},
		{At: clock, Queue: "q", Partition: "p", Group: "late", Committed: 1, LastSeq: 2},
		{At: clock, Queue: "q", Partition: "p2", Group: "g", Committed: 1},
	}, samples)
}

func TestReadStateNamesTheFailedStep(t *testing.T) {
	t.Parallel()
	pool := database(t)
	_, err := pool.Exec(t.Context(), "DROP TABLE belfry.message")
	require.NoError(t, err)
	_, err = check.ReadState(t.Context(), pool, []string{"q"})
	require.ErrorContains(t, err, "reading logs")
	_, err = pool.Exec(t.Context(), "DROP TABLE belfry.cursor")
	require.NoError(t, err)
	_, err = check.ReadState(t.Context(), pool, []string{"q"})
	require.ErrorContains(t, err, "reading cursors")
	_, err = check.ReadSamples(t.Context(), pool, []string{"q"}, nil)
	require.ErrorContains(t, err, "sampling cursors")
}

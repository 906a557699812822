package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// requireHeal requires that a heal wakes want partitions. It returns the number of announced
// cursors and whether the heal wrote the first cursor.
func (b *bench) requireHeal(want int, heard *receiver) (announced int, wrote bool) {
	b.t.Helper()
	var before, after string
	const version = `SELECT xmin::text FROM belfry.cursor ORDER BY group_id LIMIT 1`
	b.scan(version, nil, &before)
	heard.ready = nil
	healed, err := b.Heal(b.t.Context())
	require.NoError(b.t, err)
	require.Equal(b.t, want, healed, "partitions that the heal woke")
	b.scan(version, nil, &after)
	return len(heard.ready), before != after
}

// A crash between a commit and its wake leaves ready_at NULL, or at the end of the pause of a redriven message. A heal
// wakes the cursor. Without a heal, the next push to the partition wakes it.
func TestAHealWakesCursorsAfterACrash(t *testing.T) {
	const asleep = `UPDATE belfry.cursor SET ready_at = NULL`
	for name, c := range map[string]struct {
		commit func(b *bench)
		crash  string
		want   string
	}{
		"a push":                {func(b *bench) { b.register("g"); b.push("p", "1") }, asleep, "1"},
		"a redrive":             {func(b *bench) { b.redriven("0", "1") }, asleep, "1"},
		"a push during a pause": {func(b *bench) { b.failRedriven(0, "0"); b.push("p", "1") }, `UPDATE belfry.cursor SET ready_at = (SELECT retry_at FROM belfry.redrive)`, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.commit(b)
			b.exec(c.crash)
			require.Empty(t, b.pop(request("g", 1)).Messages)
			healed, err := b.Heal(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, healed)
			require.Zero(t, b.stranded())
			require.Equal(t, []string{c.want}, transactionIDs(b.pop(request("g", 1))))
		})
	}
	b := newBench(t, "g")
	b.push("p", "1")
	b.exec(asleep)
	b.push("p", "2")
	require.Equal(t, []string{"1", "2"}, transactionIDs(b.pop(request("g", 10))))
}

// Every heal examines a cursor that waits for the end of a retry delay or for a delayed message.
// The heal counts, writes and announces the cursor only if its ready_at changes.
func TestAHealCountsOnlyTheCursorsItWakes(t *testing.T) {
	b := newBench(t)
	heard := &receiver{}
	b.Observe(heard)
	quiet := func(why string) {
		t.Helper()
		announced, wrote := b.requireHeal(0, heard)
		require.Zero(t, announced, why)
		require.False(t, wrote, why)
	}
	loud := func(why string) {
		t.Helper()
		announced, wrote := b.requireHeal(1, heard)
		require.Equal(t, 1, announced, why)
		require.True(t, wrote, why)
	}
	b.failRedriven(0, "a")
	b.option("delayed_processing = 3600")
	b.push("p", "1")
	quiet("the retry delay ends before the delay of the message")
	b.option("delayed_processing = 60")
	loud("the changed delay did not wake the cursor")
	quiet("the delay of the message ends before the retry delay")
	b.exec(`UPDATE belfry.partition SET paused = true`)
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	quiet("the partition is paused")
	b.exec(`UPDATE belfry.partition SET paused = false`)
	loud("the cursor had no ready_at")
	quiet("the cursor has its ready_at")
	b.option("delayed_processing = 0")
	loud("the message is due")
	require.Equal(t, []string{"1"}, transactionIDs(b.pop(request("g", 9))))
	quiet("the cursor is leased")
}

func TestAHealCountsPartitions(t *testing.T) {
	b := newBench(t, "g", "h")
	heard := &receiver{}
	b.Observe(heard)
	b.push("p", "1")
	b.push("p2", "1")
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	announced, _ := b.requireHeal(2, heard)
	require.Equal(t, 4, announced, "two groups in each partition")
}

// drained creates a queue with partitions and groups, and a drained cursor for each pair. Every
// partition has one message.
func (b *bench) drained(partitions, groups int) {
	b.t.Helper()
	conn := b.connect() // without the time limit of the pool
	for _, statement := range []string{
		`INSERT INTO belfry.queue (name) VALUES ('q')`,
		fmt.Sprintf(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'g' || i, true FROM belfry.queue q, generate_series(1, %d) i`, groups),
		fmt.Sprintf(`INSERT INTO belfry.partition (queue_id, name, last_seq) SELECT q.id, 'p' || i, 1 FROM belfry.queue q, generate_series(1, %d) i`, partitions),
		`INSERT INTO belfry.message (partition_id, seq, id, transaction_id, payload, created_at)
			SELECT p.id, 1, gen_random_uuid(), p.name, '1', now() FROM belfry.partition p`,
		`INSERT INTO belfry.cursor (partition_id, group_id, committed) SELECT p.id, g.id, 1 FROM belfry.partition p, belfry.consumer_group g ORDER BY 1, 2`,
		`ANALYZE belfry.cursor, belfry.partition`,
	} {
		enginetest.Exec(b.t, conn, statement)
	}
}

// A heal examines cursors page by page. After an error it continues after the last page, with a
// smaller page.
func TestAHealContinuesAfterAnError(t *testing.T) {
	direct := newBench(t)
	s := newStore(t, newPool(t, direct.pool.Config().ConnString(), 2*time.Second), prometheus.NewRegistry(), nil)
	direct.drained(200, 30) // 6,000 cursors: two pages
	const strand = `UPDATE belfry.cursor SET committed = 0 WHERE partition_id IN (SELECT id FROM belfry.partition WHERE name = 'p1' OR name = 'p190')`
	direct.exec(strand)
	release := direct.lockRows(`SELECT FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name = 'p190' FOR UPDATE OF c`)
	var pass store.HealPass
	require.Error(t, s.GoOnHealing(t.Context(), &pass), "the second page waits for a lock")
	require.Equal(t, []int{5000, 1}, []int{pass.Cursors, pass.Partitions})
	release()
	direct.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	direct.exec(strand)
	require.NoError(t, s.GoOnHealing(t.Context(), &pass))
	require.Equal(t, []int{6000, 2}, []int{pass.Cursors, pass.Partitions})
	require.Equal(t, 30, direct.stranded(), "the cursors of p1, which the pass had already examined")
	healed, err := s.Heal(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, healed)
	require.Zero(t, direct.stranded())
}

// Several heals run at the start. The log contains the first heal, and each later heal that woke a partition.
func TestTheFirstHealAndHealsThatWakeAreLogged(t *testing.T) {
	b := newBench(t)
	core, logs := observer.New(zap.InfoLevel)
	s := store.New(b.pool, store.Config{Defaults: enginetest.AtOnce(), Batch: batch.DefaultConfig()}, store.NewMetrics(prometheus.NewRegistry()), zap.New(core))
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	b.register("g")
	b.push("p", "1")
	startRun(t, s)
	b.pool.SignalLoss() // like the listener when it connects, or a new sequencer
	enginetest.Await(t, "the second heal", func() bool { passes, _ := s.Heals(); return passes >= 2 })
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	b.pool.SignalLoss()
	enginetest.Await(t, "the log of the heal that wakes", func() bool { return logs.FilterField(zap.Int("woken_partitions", 1)).Len() > 0 })
	require.Equal(t, 2, logs.FilterMessageSnippet("searched for partitions").Len(), logs.All())
}

// Each commit of a SQL consumer announces its cursor. An instance settles cursors in pages, so that
// cursors announced in quick succession share a page. It settles every announced cursor.
func TestAnnouncedCursorsAreSettledTogether(t *testing.T) {
	const cursors, many = 200, 1000
	b := newBench(t)
	b.exec(`CREATE TABLE public.settled (cursors bigint)`)
	b.exec(`CREATE OR REPLACE FUNCTION belfry.settle_drained(p_partitions bigint[], p_groups bigint[]) RETURNS bigint LANGUAGE sql AS $$
		INSERT INTO public.settled VALUES (cardinality(p_partitions)); SELECT 0::bigint $$`)
	began := time.Now()
	startRun(t, b.Store)
	often := time.NewTicker(time.Millisecond)
	defer often.Stop()
	for partition := range int64(cursors) {
		<-often.C
		b.OnReady([]queue.Ready{{Group: 1, Partition: partition + 1}}, events.SQL)
	}
	for partition := range int64(many) {
		b.OnReady([]queue.Ready{{Group: 2, Partition: partition + 1}}, events.SQL)
	}
	var calls, settled, most int64
	require.Eventually(t, func() bool {
		b.scan(`SELECT count(*), coalesce(sum(cursors), 0)::bigint, coalesce(max(cursors), 0) FROM public.settled`, nil, &calls, &settled, &most)
		return settled == cursors+many
	}, time.Minute, 5*time.Millisecond)
	require.LessOrEqual(t, calls, 1+int64(time.Since(began)/store.SettleInterval))
	require.Less(t, most, int64(many))
}

// An announced cursor may have new messages. Then settle_drained does not lock the cursor, so a SQL
// consumer can pop from it meanwhile.
func TestSettleDoesNotLockACursorWithMessages(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "m")
	settling := b.begin(b.connect())
	var settled int64
	require.NoError(t, settling.QueryRow(t.Context(),
		`SELECT belfry.settle_drained(array_agg(partition_id), array_agg(group_id)) FROM belfry.cursor`).Scan(&settled))
	require.Zero(t, settled)
	require.Len(t, b.sqlPop(b.connect(), "g", 1, 1), 1)
}

// A wake finds the same cursors in a queue with few groups and in a queue with many groups. Some of
// these cursors are not ready although they have messages. Other cursors wait only for a redriven
// message.
func TestAWakeFindsTheSameCursorsAmongManyGroups(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1500} {
		t.Run(fmt.Sprint(others, " other groups"), func(t *testing.T) {
			b := newBench(t)
			b.push("p", "m1", "m2")
			b.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue)
				SELECT q.id, n, true FROM belfry.queue q,
				       unnest(ARRAY['asleep', 'drained', 'ready', 'redriven', 'redriven, leased']
				              || ARRAY(SELECT 'other' || i FROM generate_series(1, $1::int) AS i)) AS n`, others)
			b.exec(`INSERT INTO belfry.cursor (partition_id, group_id, committed, ready_at, redrives, lease_id)
				SELECT p.id, g.id, CASE WHEN g.name = 'drained' THEN p.last_seq ELSE 0 END,
				       CASE WHEN g.name LIKE 'redriven%' THEN now() + interval '1 hour' WHEN g.name IN ('ready') OR g.name LIKE 'other%' THEN now() END,
				       CASE WHEN g.name LIKE 'redriven%' THEN 1 END, CASE WHEN g.name = 'redriven, leased' THEN gen_random_uuid() END
				  FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id`)
			b.exec(`INSERT INTO belfry.cursor (partition_id, group_id) SELECT p.id, 0 FROM belfry.partition p`) // its group was deleted
			rows, err := b.pool.Query(t.Context(), `SELECT g.name FROM belfry.wake_partitions(ARRAY(SELECT p.id FROM belfry.partition p)) AS w
				JOIN belfry.consumer_group g ON g.id = w.group_id ORDER BY 1`)
			require.NoError(t, err)
			woken, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.Equal(t, []string{"asleep", "redriven"}, woken, "%d other groups", others)
			var left int
			b.scan(`SELECT count(*) FROM belfry.cursor WHERE group_id = 0 AND ready_at IS NULL`, nil, &left)
			require.Equal(t, 1, left, "the wake does not change the cursor of a deleted group")
		})
	}
}

// A wake in a queue with 10,000 groups does not read the cursors that are ready.
func TestAWakeDoesNotReadReadyCursors(t *testing.T) {
	b := newBench(t)
	b.keepStatistics()
	conn, err := b.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	wake := func(partition int64) int {
		var raw []byte
		row := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql.Query("engine/store/wake"), []int64{partition})
		require.NoError(t, row.Scan(&raw))
		var out []struct {
			Plan enginetest.Plan `json:"Plan"`
		}
		require.NoError(t, json.Unmarshal(raw, &out))
		return out[0].Plan.Hit + out[0].Plan.Read
	}
	wake(1) // plans are made while the tables are empty
	b.push("p", "m1")
	partition := b.onlyPartition()
	b.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue)
		SELECT q.id, 'g' || i, true FROM belfry.queue q, generate_series(1, 10000) AS i`)
	b.exec(`INSERT INTO belfry.cursor (partition_id, group_id, ready_at)
		SELECT p.id, g.id, now() FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id`)
	// On average a queue has few groups.
	b.exec(`INSERT INTO belfry.queue (name) SELECT 'one' || i FROM generate_series(1, 5000) AS i`)
	b.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'g', true FROM belfry.queue q WHERE q.name LIKE 'one%'`)
	for _, statistics := range []string{"none", "analyzed"} {
		if statistics == "analyzed" {
			b.exec(`ANALYZE`)
		}
		wake(partition)                                                    // reads the catalog again
		require.Less(t, wake(partition), 400, "statistics %s", statistics) // the wake counts the groups up to 1,001
	}
}

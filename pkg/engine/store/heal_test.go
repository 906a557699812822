package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store"
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

// Every heal examines a cursor that waits for the end of a retry delay or for a delayed message.
// The heal counts, writes and announces the cursor only if its ready_at changes.
func TestAHealCountsOnlyTheCursorsItWakes(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	b := newBench(t)
	heard := &receiver{}
	b.Observe(heard)
	b.register("g", "h")
	b.push("p", "1")
	b.push("p2", "1")
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	announced, _ := b.requireHeal(2, heard)
	require.Equal(t, 4, announced, "two groups in each partition")
}

// drained makes a queue with partitions and groups, and a drained cursor for each pair. Every partition
// has one message.
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
		_, err := conn.Exec(b.t.Context(), statement)
		require.NoError(b.t, err)
	}
}

// A heal examines cursors page by page. After an error it goes on after the last page, with a smaller
// page.
func TestAHealGoesOnWhereItFailed(t *testing.T) {
	t.Parallel()
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
	require.Equal(t, 30, direct.stranded(), "the cursors of p1, which the pass had left behind")
	healed, err := s.Heal(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, healed)
	require.Zero(t, direct.stranded())
}

// Several heals follow each other at the start. The log has the first heal, and each later heal that woke a partition.
func TestTheLogHasTheFirstHealAndThoseThatWoke(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	core, logs := observer.New(zap.InfoLevel)
	s := store.New(b.pool, store.Config{Defaults: enginetest.AtOnce(), Batch: batch.DefaultConfig()}, store.NewMetrics(prometheus.NewRegistry()), zap.New(core))
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	b.register("g")
	b.push("p", "1")
	startRun(t, s)
	b.pool.SignalLoss() // as when the listener connects, or when the instance becomes the sequencer
	enginetest.Await(t, "the second heal", func() bool { passes, _ := s.Heals(); return passes >= 2 })
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	b.pool.SignalLoss()
	enginetest.Await(t, "the log of the heal that wakes", func() bool { return logs.FilterField(zap.Int("woken_partitions", 1)).Len() > 0 })
	require.Equal(t, 2, logs.FilterMessageSnippet("searched for partitions").Len(), logs.All())
}

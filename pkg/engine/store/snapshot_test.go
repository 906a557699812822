package store_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

const (
	// Each row gets bursts times versions old versions. Reading them takes at least walked buffers.
	bursts, versions, walked = 8, 200, 600
	// most is the limit of buffers that a statement may touch. One entry of the index of cursors
	// may refer to 220 versions, and a page holds several entries.
	most = 250
)

// buffers runs a statement under EXPLAIN and returns the buffers it touched.
func (b *bench) buffers(q querier, statement string, args ...any) int {
	b.t.Helper()
	var raw []byte
	require.NoError(b.t, q.QueryRow(b.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+statement, args...).Scan(&raw))
	var out []struct {
		Plan enginetest.Plan `json:"Plan"`
	}
	require.NoError(b.t, json.Unmarshal(raw, &out))
	return out[0].Plan.Hit + out[0].Plan.Read
}

// keepStatistics turns off autovacuum, because the first calls after an ANALYZE read the catalog.
func (b *bench) keepStatistics() {
	b.t.Helper()
	for _, table := range []string{"queue", "partition", "message", "consumer_group", "cursor"} {
		b.exec("ALTER TABLE belfry." + table + " SET (autovacuum_enabled = off)")
	}
}

// outdate writes n versions of each cursor and each partition. Each statement writes only a few versions, so
// that it does not time out on a busy machine. The versions of a cursor differ in ready_at.
func (b *bench) outdate(n int) {
	b.t.Helper()
	const atOnce = 50
	for ; n > 0; n -= atOnce {
		b.exec(`DO $$ BEGIN FOR i IN 1..` + strconv.Itoa(min(n, atOnce)) + ` LOOP
			UPDATE belfry.cursor SET ready_at = clock_timestamp() - interval '1 h';
			UPDATE belfry.partition SET last_push_at = clock_timestamp();
		END LOOP; END $$`)
	}
}

// While a transaction holds a snapshot, Postgres removes no old versions. Frequent statements read
// no old versions of a row, and no old index entries of due cursors.
//
// A push may read old versions. If a new version of a partition row is on another page, it gets an entry
// in the unique index of names. The index then examines every version with this name
// (sql/schema/partition.sql).
func TestFrequentStatementsDoNotReadOldVersions(t *testing.T) {
	b := newBench(t, "g")
	for _, partition := range numbered("p", 20) {
		b.push(partition, "m1", "m2") // rows share pages
	}
	delivery := b.pop(&queue.PopRequest{Queue: "q", Group: "g", Batch: 1, Partitions: 1})
	require.Len(t, delivery.Messages, 1)

	b.keepStatistics()
	holder, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(t.Context()) }()
	enginetest.Exec(t, holder, "SELECT count(*) FROM belfry.cursor")
	var partitions []int64
	var group int64
	b.scan("SELECT array_agg(partition_id ORDER BY partition_id), min(group_id) FROM belfry.cursor", nil, &partitions, &group)
	for range bursts {
		b.outdate(versions)
		// The layout of the versions in the index pages differs by partition and time.
		for _, partition := range partitions {
			require.Less(t, b.buffers(b.pool, "SELECT p.id FROM belfry.partition p WHERE p.id >= $1 AND p.id <= $1 ORDER BY p.id DESC LIMIT 1", partition),
				10, "the newest version of a partition")
		}
	}
	b.exec("UPDATE belfry.cursor SET ready_at = now(), lease_until = now()")

	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	claim := func(partition *int64, floor *time.Time) int {
		sub, err := tx.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = sub.Rollback(t.Context()) }()
		return b.buffers(sub, sql.Query("engine/store/claim"), group, partition, int64(1), int64(1), [16]byte(queue.NewID()), floor, floor, true, b.epoch(), nil, true)
	}
	floor := time.Now().Add(-time.Second)
	claim(&partitions[len(partitions)-1], nil) // reads the catalog
	for _, partition := range partitions {     // one of them has a lease that ended, which more functions handle
		claim(&partition, nil)
	}
	claim(nil, &floor)
	require.Greater(t, claim(nil, nil), walked, "the old versions exist")
	require.Less(t, claim(nil, &floor), most, "a claim")
	require.Less(t, b.buffers(tx, sql.Query("engine/store/claim_wait"), group, nil, floor, 1000), most, "claim_wait")
	b.buffers(tx, sql.Query("engine/store/ack_apply"), b.completes(partitions[0], "g", 1)...) // reads the catalog
	for _, partition := range partitions {
		for name, touched := range map[string]int{
			"a claim from one partition": claim(&partition, nil),
			"wake":                       b.buffers(tx, sql.Query("engine/store/wake"), []int64{partition}),
			"preflight": b.buffers(tx, sql.Query("engine/store/preflight"), []int64{group, group}, []int64{0, partition}, []int64{2, 1},
				[]time.Time{floor, floor}, []time.Time{floor, floor}, []int64{b.epoch(), b.epoch()}),
			"ack_wait":  b.buffers(tx, sql.Query("engine/store/ack_wait"), partition, "g"),
			"ack_apply": b.buffers(tx, sql.Query("engine/store/ack_apply"), b.completes(partition, "g", 1)...),
		} {
			require.Less(t, touched, most, name)
		}
	}
}

// If another instance makes a cursor ready below the scan floor, a pop finds the cursor as soon as
// the instance announces it.
func TestAPopFindsALateCommitBelowItsFloor(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "m1")
	require.Len(t, b.pop(request("g", 1)).Messages, 1)
	var partition, group int64
	b.scan("SELECT partition_id, group_id FROM belfry.cursor", nil, &partition, &group)

	// Another session releases the lease, but commits only after the floor has passed it.
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	var readyAt time.Time
	require.NoError(t, tx.QueryRow(t.Context(), `UPDATE belfry.cursor
		   SET lease_id = NULL, lease_until = NULL, lease_end = NULL, ready_at = statement_timestamp()
		RETURNING ready_at`).Scan(&readyAt))
	require.Eventually(t, func() bool {
		require.Empty(t, b.pop(request("g", 1)).Messages)
		return b.DueFloor(group).After(readyAt)
	}, 30*time.Second, 50*time.Millisecond, "the floor rises above ready_at")
	require.NoError(t, tx.Commit(t.Context()))
	b.OnReady([]queue.Ready{{Group: group, Partition: partition}}, events.Peer)
	require.Equal(t, []string{"m1"}, transactionIDs(b.pop(request("g", 1))))
}

// An autoAck pop leaves a delayed message. The next pop reports when that message is due, although
// an earlier scan saw no due instant before the end of a lease.
func TestAPopReportsTheDueInstantThatAnAutoAckPopLeft(t *testing.T) {
	b := newBench(t, "g")
	b.option("delayed_processing = 60, lease_time = 3600")
	b.push("p", "m1", "m2")
	b.ageMessages(1, time.Hour)
	b.recomputeReady()
	leased := b.pop(request("g", 1))
	require.Equal(t, []string{"m1"}, transactionIDs(leased))
	empty := b.pop(request("g", 1))
	require.Empty(t, empty.Messages)
	require.Greater(t, empty.NextIn, 30*time.Minute, "the message is due later than the end of the lease")
	require.NoError(t, b.Release(t.Context(), leased.LeaseID))
	req := request("g", 1, withAutoAck(true))
	require.Equal(t, []string{"m1"}, transactionIDs(b.pop(req)))
	empty = b.pop(request("g", 1))
	require.Empty(t, empty.Messages)
	require.True(t, empty.HasNext)
	require.LessOrEqual(t, empty.NextIn, time.Minute)
}

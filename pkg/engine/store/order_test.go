package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// I2: two transactions push to one partition. The transaction that starts first commits last, and a
// consumer drains the partition in between. Ordered by time or id, the slow message would be before
// the cursor at its commit and would be skipped.
func TestCommitOrderIsDeliveryOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.push("p", "before")
	b.pop(&queue.PopRequest{Queue: "q", Group: "g", Batch: 10, Partitions: 1, AutoAck: true})
	var partition int64
	b.scan(`SELECT id FROM belfry.partition WHERE name = 'p'`, nil, &partition)

	// The slow producer begins and fixes its transaction id and its now().
	slow, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = slow.Rollback(t.Context()) }()
	slowID := queue.NewID()
	_, err = slow.Exec(t.Context(), `SELECT pg_current_xact_id(), now()`)
	require.NoError(t, err)

	// A fast producer starts later and commits first. A consumer drains the partition.
	b.push("p", "fast-1")
	drained := transactionIDs(b.pop(&queue.PopRequest{Queue: "q", Group: "g", Batch: 10, Partitions: 1, AutoAck: true}))
	require.Equal(t, []string{"fast-1"}, drained)

	_, err = slow.Exec(t.Context(), sql.Query("engine/store/append"), []int64{partition}, []int64{1}, []time.Time{}, []int64{},
		[]int32{1}, []int32{1}, [][16]byte{slowID}, []string{"slow"}, []string{"{}"}, [][16]byte{}, []string{}, []time.Time{},
		[]bool{}, true, nil, b.epoch())
	require.NoError(t, err)

	// Another push waits, because the slow producer has locked the partition.
	later := make(chan error, 1)
	go func() {
		_, err := b.Push(t.Context(), []queue.PushItem{item("p", "fast-2")})
		later <- err
	}()
	awaitLockWait(t, b)
	require.Empty(t, b.pop(request("g", 10)).Messages, "uncommitted messages are not delivered")
	require.NoError(t, slow.Commit(t.Context()))
	require.NoError(t, <-later)

	got := transactionIDs(b.pop(request("g", 10)))
	require.Equal(t, []string{"slow", "fast-2"}, got, "a later commit is delivered later, and no message is skipped")
}

// created_at never decreases within a partition, even if the clock goes backwards.
func TestCreatedAtNeverDecreasesWithinAPartition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.push("p", "a")
	_, err := b.pool.Exec(t.Context(), `UPDATE belfry.partition SET last_push_at = now() + interval '1 hour'`)
	require.NoError(t, err)
	b.push("p", "b")
	b.push("p", "c")
	var falling int
	b.scan(`SELECT count(*) FROM belfry.message a JOIN belfry.message b USING (partition_id)
		WHERE a.seq < b.seq AND a.created_at > b.created_at`, nil, &falling)
	require.Zero(t, falling)
}

// I7: duplicates in one call and in a later call get the id of the first message. Another partition
// has no duplicate.
func TestADuplicateGetsTheIDOfTheFirstMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.push("p", "x", "y", "x")
	require.False(t, first[0].Duplicate)
	require.False(t, first[1].Duplicate)
	require.True(t, first[2].Duplicate)
	require.Equal(t, first[0].MessageID, first[2].MessageID)

	again := b.push("p", "z", "x")
	require.False(t, again[0].Duplicate)
	require.True(t, again[1].Duplicate)
	require.Equal(t, first[0].MessageID, again[1].MessageID)
	require.False(t, b.push("other", "x")[0].Duplicate, "another partition is another log")

	// A duplicate leaves no hole in the log: last_seq is the number of messages.
	var lastSeq, n int64
	b.scan(`SELECT p.last_seq, count(*) FROM belfry.partition p JOIN belfry.message m ON m.partition_id = p.id
		WHERE p.name = 'p' GROUP BY 1`, nil, &lastSeq, &n)
	require.Equal(t, n, lastSeq)
}

// I7: 50 concurrent pushes of one transaction id store one message, and all return its id.
func TestConcurrentDuplicatesStoreOneMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 50
	results := make(chan queue.PushResult, n)
	for range n {
		go func() {
			r, err := b.Push(t.Context(), []queue.PushItem{item("p", "once")})
			if err != nil || len(r) != 1 {
				results <- queue.PushResult{}
				return
			}
			results <- r[0]
		}()
	}
	queued, ids := 0, map[queue.ID]int{}
	for range n {
		r := <-results
		ids[r.MessageID]++
		if !r.Duplicate {
			queued++
		}
	}
	require.Equal(t, 1, queued)
	require.Len(t, ids, 1)
	var stored queue.ID
	b.scan(`SELECT id FROM belfry.message`, nil, (*[16]byte)(&stored))
	require.Equal(t, n, ids[stored])
}

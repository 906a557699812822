package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// I2: two transactions push to one partition. The transaction that starts first commits last, and a
// consumer drains the partition in between. If the order were by start time or by id, the cursor
// would skip the slow message.
func TestCommitOrderIsDeliveryOrder(t *testing.T) {
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
	enginetest.Exec(t, slow, `SELECT pg_current_xact_id(), now()`)

	// A fast producer starts later and commits first. A consumer drains the partition.
	b.push("p", "fast-1")
	drained := transactionIDs(b.pop(&queue.PopRequest{Queue: "q", Group: "g", Batch: 10, Partitions: 1, AutoAck: true}))
	require.Equal(t, []string{"fast-1"}, drained)

	enginetest.Exec(t, slow, sql.Query("engine/store/append"), []int64{partition}, []int64{1}, []time.Time{}, []int64{},
		[]int32{1}, []int32{1}, [][16]byte{slowID}, []string{"slow"}, []string{"{}"}, [][16]byte{}, []string{}, []time.Time{},
		[]bool{}, true, nil, b.epoch(), []*string{})

	// Another push waits, because the slow producer has locked the partition.
	later := b.beginPush(item("p", "fast-2"))
	awaitLockWait(t, b)
	require.Empty(t, b.pop(request("g", 10)).Messages, "uncommitted messages are not delivered")
	require.NoError(t, slow.Commit(t.Context()))
	require.NoError(t, (<-later).err)

	got := transactionIDs(b.pop(request("g", 10)))
	require.Equal(t, []string{"slow", "fast-2"}, got, "a later commit is delivered later, and no message is skipped")
}

// created_at never decreases within a partition, even if the clock goes backwards.
func TestCreatedAtNeverDecreasesWithinAPartition(t *testing.T) {
	b := newBench(t)
	b.push("p", "a")
	b.exec(`UPDATE belfry.partition SET last_push_at = now() + interval '1 hour'`)
	b.push("p", "b")
	b.push("p", "c")
	require.Zero(t, b.count(`SELECT count(*) FROM belfry.message a JOIN belfry.message b USING (partition_id)
		WHERE a.seq < b.seq AND a.created_at > b.created_at`))
}

// I7: duplicates in one call and in a later call get the id of the first message. Another partition
// has no duplicate.
func TestADuplicateGetsTheIDOfTheFirstMessage(t *testing.T) {
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

// I3: pushes, pops and acks race on three partitions for two groups. So a push often commits while
// an ack drains the cursor. No cursor is stranded, no message is lost, duplicated or out of order,
// and no deadlock occurs.
func TestRacingPushesPopsAndAcksStrandNoCursor(t *testing.T) {
	const rounds, partitions, pushers, poppers = 4_000, 3, 4, 4
	b := newBench(t)
	groups := []string{"g1", "g2"}
	b.register(groups...)

	var pushed atomic.Int64
	work, ctx := errgroup.WithContext(t.Context())
	for range pushers {
		work.Go(func() error {
			for {
				n := pushed.Add(1)
				if n > rounds {
					return nil
				}
				partition := fmt.Sprintf("p%d", rand.IntN(partitions))
				if _, err := b.Push(ctx, []queue.PushItem{item(partition, fmt.Sprintf("m%d", n))}); err != nil {
					return err
				}
			}
		})
	}
	var consumed [2]atomic.Int64
	for g, group := range groups {
		for popper := range poppers {
			work.Go(func() error {
				return drain(ctx, b, group, popper%2 == 0, func(n int) bool { return consumed[g].Add(int64(n)) >= rounds })
			})
		}
	}
	require.NoError(t, work.Wait())

	require.Zero(t, b.stranded(), "stranded cursors")
	require.Zero(t, b.deadlocks(), "deadlocks")
	for g, group := range groups {
		require.EqualValues(t, rounds, consumed[g].Load(), "messages of %s", group)
		require.Empty(t, b.pop(request(group, 1)).Messages)
	}
}

// drain pops until done returns true, with autoAck or with an ack for each delivery. It checks that
// it receives the messages of each partition in order. The caller checks I4, one lease per
// partition, by the number of messages.
func drain(ctx context.Context, b *bench, group string, autoAck bool, done func(n int) bool) error {
	last := map[string]int64{}
	for {
		req := request(group, 1+rand.IntN(3), withAutoAck(autoAck), across(2))
		d, err := b.Pop(ctx, req)
		if err != nil {
			return err
		}
		for _, m := range d.Messages {
			if m.Seq <= last[m.Partition.Name] {
				return fmt.Errorf("group %s, partition %s: seq %d after %d", group, m.Partition.Name, m.Seq, last[m.Partition.Name])
			}
			last[m.Partition.Name] = m.Seq
		}
		if !autoAck && len(d.Messages) > 0 {
			results, err := b.Ack(ctx, acks(d, queue.AckCompleted, d.Messages...))
			if err != nil {
				return err
			}
			for _, r := range results {
				if !r.Success {
					return fmt.Errorf("ack refused: %s", r.Error)
				}
			}
		}
		if done(len(d.Messages)) {
			return nil
		}
	}
}

// I4 and I8: a rival has locked the only due cursor. A pop waits for the rival instead of returning
// an empty delivery, and takes the cursor after the rival rolls back.
func TestAPopWaitsForALockedDueCursor(t *testing.T) {
	b := newBench(t, "g")
	b.push("p", "m")
	for _, req := range []*queue.PopRequest{request("g", 1), request("g", 1, from("p"))} {
		release := b.lockRows(holdCursors)
		got := make(chan queue.Delivery, 1)
		go func() {
			d, err := b.Pop(t.Context(), req)
			assert.NoError(t, err)
			got <- d
		}()
		awaitLockWait(t, b)
		release()
		d := <-got
		require.Equal(t, []string{"m"}, transactionIDs(d))
		require.NoError(t, b.Release(t.Context(), d.LeaseID))
	}
}

func ptr[T any](v T) *T { return &v }

// Groups and partitions are created concurrently while messages are pushed. Every pair has a cursor,
// and every group gets every message.
func TestConcurrentlyCreatedGroupsAndPartitionsMissNoMessage(t *testing.T) {
	b := newBench(t)
	const partitions, groups = 40, 8
	b.push("p-first", "m")
	work, ctx := errgroup.WithContext(t.Context())
	for p := range partitions {
		work.Go(func() error {
			_, err := b.Push(ctx, []queue.PushItem{item(fmt.Sprintf("p%d", p), "m")})
			return err
		})
	}
	for g := range groups {
		work.Go(func() error {
			_, err := b.Pop(ctx, &queue.PopRequest{Queue: "q", Group: fmt.Sprintf("g%d", g), Batch: 1, Partitions: 1, AutoAck: true})
			return err
		})
	}
	require.NoError(t, work.Wait())
	require.Equal(t, (partitions+1)*groups, b.count(`SELECT count(*) FROM belfry.cursor`))
	require.Zero(t, b.stranded())
	for g := range groups {
		req := &queue.PopRequest{Queue: "q", Group: fmt.Sprintf("g%d", g), Batch: 1000, Partitions: 200, AutoAck: true}
		require.Len(t, b.pop(req).Messages, partitions, "one message of %d was consumed at registration", partitions+1)
	}
}

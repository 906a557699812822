package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// I3: pushes, pops and acks race on three partitions for two groups. So an ack that empties a cursor
// often meets a push that commits at that moment. No cursor is stranded, no message is lost,
// duplicated or out of order, and no deadlock occurs.
func TestRacingPushesPopsAndAcksStrandNoCursor(t *testing.T) {
	t.Parallel()
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
// each popper sees each partition in order. The caller checks I4, one lease per partition, by the
// number of messages.
func drain(ctx context.Context, b *bench, group string, autoAck bool, done func(n int) bool) error {
	last := map[string]int64{}
	for {
		req := request(group, 1+rand.IntN(3))
		req.AutoAck, req.Partitions = autoAck, 2
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
	t.Parallel()
	b := newBench(t)
	b.push("p", "m")
	b.pop(&queue.PopRequest{Queue: "q", Group: "g", Batch: 1, Partitions: 1}) // registers, leases
	_, err := b.pool.Exec(t.Context(), `UPDATE belfry.cursor SET lease_id = NULL, lease_until = NULL, ready_at = now()`)
	require.NoError(t, err)

	rival, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = rival.Rollback(t.Context()) }()
	_, err = rival.Exec(t.Context(), `SELECT partition_id FROM belfry.cursor FOR UPDATE`)
	require.NoError(t, err)
	for _, req := range []*queue.PopRequest{request("g", 1), {Queue: "q", Group: "g", Batch: 1, Partitions: 1, Partition: ptr("p")}} {
		got := make(chan queue.Delivery, 1)
		go func() {
			d, err := b.Pop(t.Context(), req)
			if err == nil {
				got <- d
			}
			close(got)
		}()
		awaitLockWait(t, b)
		require.NoError(t, rival.Rollback(t.Context()))
		d := <-got
		require.Equal(t, []string{"m"}, transactionIDs(d))
		require.NoError(t, b.Release(t.Context(), d.LeaseID))

		rival, err = b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = rival.Exec(t.Context(), `SELECT partition_id FROM belfry.cursor FOR UPDATE`)
		require.NoError(t, err)
	}
}

func ptr[T any](v T) *T { return &v }

// Groups and partitions are created concurrently while messages are pushed. Every pair has a cursor,
// and every group gets every message.
func TestConcurrentlyCreatedGroupsAndPartitionsMissNoMessage(t *testing.T) {
	t.Parallel()
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
	var cursors int
	b.scan(`SELECT count(*) FROM belfry.cursor`, nil, &cursors)
	require.Equal(t, (partitions+1)*groups, cursors)
	require.Zero(t, b.stranded())
	for g := range groups {
		req := &queue.PopRequest{Queue: "q", Group: fmt.Sprintf("g%d", g), Batch: 1000, Partitions: 200, AutoAck: true}
		require.Len(t, b.pop(req).Messages, partitions, "one of %d was consumed at registration", partitions+1)
	}
}

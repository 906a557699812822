package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// hand returns a delivery of n messages, every other one from another partition.
func hand(n int) (d *queue.Delivery, partitions []int64) {
	d = &queue.Delivery{LeaseID: queue.NewID()}
	for i := range n {
		d.Messages = append(d.Messages, queue.Message{Seq: int64(i/2 + 1), TransactionID: fmt.Sprint("t", i/2)})
		partitions = append(partitions, int64(i%2+1))
	}
	return d, partitions
}

func TestDeliveredFindsInAnyOrder(t *testing.T) {
	t.Parallel()
	known := newDelivered()
	first, partitions := hand(6)
	known.remember(first, partitions)
	second, _ := hand(2)
	known.remember(second, []int64{7, 8})
	for _, order := range [][]int{{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 3, 0}, {4, 4, 4}} {
		find := seeker{known: known}
		for _, i := range order {
			got := find.seq(first.LeaseID.String(), partitions[i], first.Messages[i].TransactionID)
			require.Equal(t, first.Messages[i].Seq, got, "order %v, message %d", order, i)
		}
	}
	find := seeker{known: known}
	require.EqualValues(t, 1, find.seq(first.LeaseID.String(), 1, "t0"))
	require.EqualValues(t, 1, find.seq(second.LeaseID.String(), 8, "t0"), "another lease")
	require.Zero(t, find.seq(second.LeaseID.String(), 1, "t0"), "a message of another lease")
	require.Zero(t, find.seq(first.LeaseID.String(), 7, "t0"), "a partition of another lease")
	require.Zero(t, find.seq(queue.NewID().String(), 1, "t0"), "a lease nobody remembers")
	require.Zero(t, find.seq("no id", 1, "t0"))
	require.Zero(t, find.seq("", 1, "t0"))
}

func TestDeliveredForgetsTheOldest(t *testing.T) {
	t.Parallel()
	known := newDelivered()
	const each = 1000
	var all []*queue.Delivery
	for range deliveredSize/each + 1 {
		d, partitions := hand(each)
		known.remember(d, partitions)
		all = append(all, d)
	}
	require.Nil(t, known.of(all[0].LeaseID))
	require.NotNil(t, known.of(all[1].LeaseID))
	require.LessOrEqual(t, known.size, deliveredSize)
	require.Len(t, known.order, len(known.leases))
}

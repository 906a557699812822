package delivered

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// deliver returns a delivery of n messages, which alternate between two partitions.
func deliver(n int) (d *queue.Delivery, partitions []int64) {
	d = &queue.Delivery{LeaseID: queue.NewID()}
	for i := range n {
		d.Messages = append(d.Messages, queue.Message{Seq: int64(i/2 + 1), TransactionID: fmt.Sprint("t", i/2)})
		partitions = append(partitions, int64(i%2+1))
	}
	return d, partitions
}

func TestMessagesAreFoundInAnyOrder(t *testing.T) {
	known := New()
	first, partitions := deliver(6)
	known.Remember(first, partitions)
	second, _ := deliver(2)
	known.Remember(second, []int64{7, 8})
	for _, order := range [][]int{{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 3, 0}, {4, 4, 4}} {
		find := known.NewFinder()
		for _, i := range order {
			got := find.Seq(first.LeaseID.String(), partitions[i], first.Messages[i].TransactionID)
			require.Equal(t, first.Messages[i].Seq, got, "order %v, message %d", order, i)
		}
	}
	find := known.NewFinder()
	require.EqualValues(t, 1, find.Seq(first.LeaseID.String(), 1, "t0"))
	require.EqualValues(t, 1, find.Seq(second.LeaseID.String(), 8, "t0"), "another lease")
	require.Zero(t, find.Seq(second.LeaseID.String(), 1, "t0"), "a message of another lease")
	require.Zero(t, find.Seq(first.LeaseID.String(), 7, "t0"), "a partition of another lease")
	require.Zero(t, find.Seq(queue.NewID().String(), 1, "t0"), "an unknown lease")
	require.Zero(t, find.Seq("no id", 1, "t0"))
	require.Zero(t, find.Seq("", 1, "t0"))
}

func TestTheOldestLeasesAreForgotten(t *testing.T) {
	known := New()
	const each = 1000
	var all []*queue.Delivery
	for range maxMessages/each + 1 {
		d, partitions := deliver(each)
		known.Remember(d, partitions)
		all = append(all, d)
	}
	require.Nil(t, known.lease(all[0].LeaseID))
	require.NotNil(t, known.lease(all[1].LeaseID))
	require.LessOrEqual(t, known.size, maxMessages)
	require.Len(t, known.order, len(known.leases))
}

package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients of Queen MQ push 12,000 items in one call, and to 1,200 partitions. The server must accept such a call.
func TestPushOfManyItemsToManyPartitions(t *testing.T) {
	t.Parallel()
	c := start(t).client(t)
	const many, partitions = 12_000, 1200
	items := make([]item, many)
	for i := range items {
		items[i] = item{Queue: "q", Partition: fmt.Sprint("p", i%partitions), TransactionID: fmt.Sprint(i)}
	}
	require.Len(t, c.push(items...).ok(http.StatusCreated), many)
	var acks []ackItem
	for len(acks) < many {
		d := c.pop("q", "batch=10000&partitions=200").ok(http.StatusOK)
		acks = append(acks, d.ack("completed")...)
	}
	require.Len(t, c.ackBatch("", acks...).ok(http.StatusOK), many)
	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status)
}

package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, c client, queue string){
		"nothing is inherited":     deleteInheritsNothing,
		"a pop right after a push": deleteThenPopAtOnce,
		"leases and acks":          deleteEndsLeases,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t), t.Name())
		})
	}
}

func deleteInheritsNothing(t *testing.T, c client, queue string) {
	body := `{"queue":"` + queue + `","namespace":"inherited","options":{"delayedProcessing":3600,"retryLimit":0}}`
	before := ask[configured](c, post(configurePath, body)).ok(http.StatusOK)
	c.configure(queue, nil).ok(http.StatusOK)
	c.pushIDs(queue, "", "1", "2", "3")
	c.pushIDs(queue, "other", "4")
	require.Equal(t, []string{"1", "2"}, c.popPartition(queue, "Default", "batch=2&autoAck=true&consumerGroup=g").ok(http.StatusOK).ids())
	require.Empty(t, c.popIDs(queue, "consumerGroup=late&subscriptionMode=new"))
	ask[configured](c, post(configurePath, body)).ok(http.StatusOK)
	require.True(t, c.deleteQueue(queue).ok(http.StatusOK).Existed)
	require.Empty(t, c.popIDs(queue, "batch=9"))
	require.Empty(t, c.popIDs(queue, "batch=9&consumerGroup=g"))
	require.Equal(t, http.StatusNoContent, ask[delivery](c, popTaggedCall("namespace=inherited")).Status)

	again := c.pushIDs(queue, "", "1", "5")
	require.Equal(t, "queued", again[0].Status, "the new queue must accept transaction ids of the deleted queue")
	require.NotEqual(t, before.PartitionID, again[0].PartitionID)
	for _, query := range []string{"", "&consumerGroup=g", "&consumerGroup=late"} {
		// The pop waits, because this test is not about how soon the messages are visible.
		require.Equal(t, []string{"1", "5"}, c.popIDs(queue, "batch=9&partitions=9&wait=true&timeout=20000"+query), "group %q", query)
	}
	require.Equal(t, http.StatusNoContent, ask[delivery](c, popTaggedCall("namespace=inherited&consumerGroup=x")).Status)
	var limit int64
	c.scan(t, `SELECT retry_limit FROM belfry.queue WHERE name = $1 AND deleted_at IS NULL`, []any{queue}, &limit)
	require.EqualValues(t, 3, limit, "the new queue must have the default options")
	require.Equal(t, defaultOptions(), c.configure(queue, nil).ok(http.StatusOK).Options)
}

// A group that existed before the deletion must receive a message of the new queue at once. The server may still be purging
// the rows of the old queue.
func deleteThenPopAtOnce(t *testing.T, c client, queue string) {
	for i := range 20 {
		id := fmt.Sprint(i)
		c.pushIDs(queue, "p", id)
		require.Equal(t, []string{id}, c.popIDs(queue, "consumerGroup=g"), "round %d", i)
		require.Equal(t, []string{id}, c.popPartition(queue, "p", "consumerGroup=h").ok(http.StatusOK).ids(), "round %d", i)
		require.True(t, c.deleteQueue(queue).ok(http.StatusOK).Existed)
	}
}

func deleteEndsLeases(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "1", "2")
	d := c.pop(queue, "batch=2").ok(http.StatusOK)
	c.deleteQueue(queue).ok(http.StatusOK)
	for _, one := range c.ackBatch("", d.ack("completed")...).ok(http.StatusOK) {
		require.False(t, one.Success)
		require.NotEmpty(t, one.reason())
	}
	require.Equal(t, http.StatusNotFound, c.extend(d.LeaseID, `{}`).Status)

	c.pushIDs(queue, "p", "1")
	for _, one := range c.ackBatch("", d.ack("completed", 0)...).ok(http.StatusOK) {
		require.False(t, one.Success, "an ack for the old partition must not count for the new one")
	}
	require.Equal(t, []string{"1"}, c.popIDs(queue, "wait=true&timeout=20000"))
}

// An instance notices that another instance deleted a queue only when it uses the cached ids of the queue.
func TestDeleteOnAnotherInstance(t *testing.T) {
	t.Parallel()
	first := start(t)
	a, b := first.client(t), startOn(t, first.dsn).client(t)
	before := b.pushIDs("q", "p", "1", "2")
	require.Equal(t, []string{"1"}, b.popIDs("q", "autoAck=true&consumerGroup=g"))
	require.True(t, a.deleteQueue("q").ok(http.StatusOK).Existed)
	require.Empty(t, b.popIDs("q", "consumerGroup=g"), "a pop of a deleted queue must return nothing")

	again := b.push(item{Queue: "q", Partition: "p", TransactionID: "1"}, item{Queue: "q", Partition: "o", TransactionID: "3"},
		item{Queue: "else", TransactionID: "4"}).ok(http.StatusCreated)
	for _, one := range again {
		require.Equal(t, "queued", one.Status)
	}
	require.NotEqual(t, before[0].PartitionID, again[0].PartitionID)
	require.True(t, a.storedQueue("q"))
	require.ElementsMatch(t, []string{"1", "3"}, a.popIDs("q", "batch=9&partitions=9&consumerGroup=a"))
	d := b.pop("q", "batch=9&partitions=9&consumerGroup=g&wait=true&timeout=20000").ok(http.StatusOK)
	require.ElementsMatch(t, []string{"1", "3"}, d.ids())
	for _, one := range a.ackBatch("g", d.ack("completed")...).ok(http.StatusOK) {
		require.True(t, one.Success, "an ack at another instance must succeed: %s", one.reason())
	}

	old := b.ack(ackItem{TransactionID: "2", PartitionID: before[0].PartitionID, ConsumerGroup: "g"}).ok(http.StatusOK)[0]
	require.False(t, old.Success)
	b.configure("q", map[string]any{"delayedProcessing": 3600}).ok(http.StatusOK)
	a.pushIDs("q", "p", "5")
	require.Empty(t, a.popIDs("q", "consumerGroup=g"), "an option that is set on one instance must apply on all instances")
}

package integration_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

type shownMessage struct {
	ID, Status, QueuePath string
	QueueStatus           *string
	LeaseExpiresAt        *string
	ErrorMessage          *string
	RetryCount            int
	Payload               any
	Mode                  struct {
		HasQueueMode bool
		Type         string
	}
	BusStatus struct{ ConsumedBy, TotalGroups int }
}

func (c client) shown(m letter) shownMessage {
	c.t.Helper()
	return ask[shownMessage](c, get(messagePath(m, ""))).ok(http.StatusOK)
}

func (c client) deleteMessage(m letter) (existed bool, answer string) {
	c.t.Helper()
	got := ask[struct {
		Success bool
		Message string
	}](c, remove(messagePath(m, ""))).ok(http.StatusOK)
	return got.Success, got.Message
}

// depth returns the number of messages that the cursors of a queue have still to read.
func (c client) depth(queue string) (n int) {
	c.t.Helper()
	c.scan(c.t, `SELECT coalesce(sum(p.last_seq - c.committed - coalesce(belfry.skipped_after(c.skip, 0), 0) + coalesce(c.redrives, 0)), 0)
		FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id JOIN belfry.queue q ON q.id = p.queue_id
		WHERE q.name = $1`, []any{queue}, &n)
	return n
}

func TestMessages(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, c client, queue string){
		"shown":                      messagesShown,
		"missing":                    messagesMissing,
		"deleted before it is ready": messagesDeletedUnread,
		"deleted under a lease":      messagesDeletedLeased,
		"the whole lease deleted":    messagesDeletedWholeLease,
		"a deleted dead letter":      messagesDeletedDead,
		"a deleted redrive":          messagesDeletedRedriven,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t), t.Name())
		})
	}
}

func messagesShown(t *testing.T, c client, queue string) {
	stored := c.push(item{Queue: queue, Partition: "p", TransactionID: "a", Payload: []byte(`{"x":[1,"<>"]}`)}).ok(http.StatusCreated)[0]
	m := letter{PartitionID: stored.PartitionID, TransactionID: "a"}
	got := c.shown(m)
	require.Equal(t, []string{stored.MessageID, "pending", queue + "/p", "none"}, []string{got.ID, got.Status, got.QueuePath, got.Mode.Type})
	require.Equal(t, map[string]any{"x": []any{1.0, "<>"}}, got.Payload)
	require.Nil(t, got.LeaseExpiresAt)

	d := c.pop(queue, "").ok(http.StatusOK)
	got = c.shown(m)
	require.Equal(t, []string{"processing", "queue"}, []string{got.Status, got.Mode.Type})
	require.NotNil(t, got.LeaseExpiresAt)
	c.ackBatch("", d.ack("completed")...).ok(http.StatusOK)
	require.Equal(t, "completed", *c.shown(m).QueueStatus)

	bus := c.pop(queue, "consumerGroup=g").ok(http.StatusOK)
	require.Equal(t, "hybrid", c.shown(m).Mode.Type)
	require.Zero(t, c.shown(m).BusStatus.ConsumedBy)
	dead := bus.ack("dlq")[0]
	dead.Error = "why"
	c.ackBatch("g", dead).ok(http.StatusOK)
	got = c.shown(m)
	require.Equal(t, "dead_letter", got.Status)
	require.Equal(t, "why", *got.ErrorMessage)
	require.Equal(t, 1, got.BusStatus.ConsumedBy)
	require.Equal(t, 1, c.redriveAll(queue, "g").Redriven)
	require.Zero(t, c.shown(m).BusStatus.ConsumedBy, "the message must be read again")
	require.Equal(t, "completed", c.shown(m).Status)
}

func messagesMissing(t *testing.T, c client, queue string) {
	stored := c.pushIDs(queue, "p", "a")[0]
	for _, m := range []letter{
		{PartitionID: stored.PartitionID, TransactionID: "b"}, {PartitionID: "no uuid", TransactionID: "a"},
		{PartitionID: "00000000-0000-0000-0000-000000000001", TransactionID: "a"},
	} {
		got := ask[any](c, get("/api/v1/messages/"+url.PathEscape(m.PartitionID)+"/"+m.TransactionID))
		require.Equal(t, http.StatusNotFound, got.Status)
		require.Equal(t, "Message not found", got.failure)
		m.PartitionID = url.PathEscape(m.PartitionID)
		existed, answer := c.deleteMessage(m)
		require.False(t, existed)
		require.Equal(t, "Message not found", answer)
	}
}

func messagesDeletedUnread(t *testing.T, c client, queue string) {
	stored := c.pushIDs(queue, "p", "1", "2", "3", "4")
	m := letter{PartitionID: stored[0].PartitionID}
	require.Equal(t, []string{"1"}, c.popIDs(queue, "consumerGroup=g&autoAck=true"))
	require.Equal(t, 3, c.depth(queue))
	for left, id := range []string{"3", "2", "4"} {
		m.TransactionID = id
		existed, answer := c.deleteMessage(m)
		require.True(t, existed)
		require.Equal(t, "Message deleted successfully", answer)
		require.Equal(t, 2-left, c.depth(queue), "after %s", id)
	}
	existed, _ := c.deleteMessage(m)
	require.False(t, existed)
	require.Empty(t, c.popIDs(queue, "consumerGroup=g"))
	c.pushIDs(queue, "p", "2")
	require.Equal(t, []string{"2"}, c.popIDs(queue, "consumerGroup=g"), "the transaction id can be used again")
}

func messagesDeletedLeased(t *testing.T, c client, queue string) {
	stored := c.pushIDs(queue, "p", "1", "2", "3", "4")
	d := c.pop(queue, "consumerGroup=g&batch=3").ok(http.StatusOK)
	c.deleteMessage(letter{PartitionID: stored[0].PartitionID, TransactionID: "2"})
	c.deleteMessage(letter{PartitionID: stored[0].PartitionID, TransactionID: "3"})
	require.Equal(t, 2, c.depth(queue))
	got := c.ackBatch("g", d.ack("completed")...).ok(http.StatusOK)
	require.True(t, got[0].Success && *got[0].LeaseReleased)
	for _, one := range got[1:] {
		require.False(t, one.Success)
		require.Equal(t, "Message not found", *one.Error)
	}
	require.Equal(t, 1, c.depth(queue))
	require.Equal(t, []string{"4"}, c.popIDs(queue, "consumerGroup=g&batch=9"), "the partition continues")
}

func messagesDeletedWholeLease(t *testing.T, c client, queue string) {
	stored := c.pushIDs(queue, "p", "1", "2", "3")
	d := c.pop(queue, "consumerGroup=g&batch=2").ok(http.StatusOK)
	waiting := c.begin(popCall(queue, "consumerGroup=g&wait=true&timeout=60000"))
	c.deleteMessage(letter{PartitionID: stored[0].PartitionID, TransactionID: "2"})
	c.deleteMessage(letter{PartitionID: stored[0].PartitionID, TransactionID: "1"})
	require.Equal(t, []string{"3"}, waiting.delivery().ok(http.StatusOK).ids(), "the lease need not expire")
	require.Less(t, waiting.reply.Took, patience)
	require.Equal(t, "Message not found", *c.ackBatch("g", d.ack("completed")...).ok(http.StatusOK)[0].Error)
	require.Equal(t, 1, c.depth(queue))
}

func messagesDeletedDead(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "1", "2")
	d := c.pop(queue, "consumerGroup=g&batch=9").ok(http.StatusOK)
	c.ackBatch("g", d.ack("dlq", 1)...).ok(http.StatusOK)
	require.Equal(t, 1, c.depth(queue))
	c.deleteMessage(c.dlq("queue=" + url.QueryEscape(queue)).Messages[0])
	require.Empty(t, c.dlq("queue="+url.QueryEscape(queue)).Messages)
	require.Equal(t, 1, c.depth(queue))
	require.True(t, *c.ackBatch("g", d.ack("completed", 0)...).ok(http.StatusOK)[0].LeaseReleased)
	require.Zero(t, c.depth(queue))
}

func messagesDeletedRedriven(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "1", "2", "3")
	c.deadLetterAll(queue, "g")
	all := c.dlq("queue=" + url.QueryEscape(queue)).Messages
	require.Equal(t, 3, c.redriveAll(queue, "g").Redriven)
	require.Equal(t, 3, c.depth(queue))
	d := c.pop(queue, "consumerGroup=g&batch=2").ok(http.StatusOK)
	for left, i := range []int{2, 1} { // 1 and 2, which are leased
		c.deleteMessage(all[i])
		require.Equal(t, 2-left, c.depth(queue))
	}
	require.Equal(t, []string{"3"}, c.popIDs(queue, "consumerGroup=g&batch=9"), "the lease has no messages left")
	require.Equal(t, "Message not found", *c.ackBatch("g", d.ack("completed")...).ok(http.StatusOK)[0].Error)
}

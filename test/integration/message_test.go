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

// depth returns the number of messages that the cursors of a queue have not read yet.
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
		"shown":                   messagesShown,
		"missing":                 messagesMissing,
		"the whole lease deleted": messagesDeletedWholeLease,
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
	require.Zero(t, c.shown(m).BusStatus.ConsumedBy, "a redriven message must count as unread")
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

func messagesDeletedWholeLease(t *testing.T, c client, queue string) {
	stored := c.pushIDs(queue, "p", "1", "2", "3")
	d := c.pop(queue, "consumerGroup=g&batch=2").ok(http.StatusOK)
	waiting := c.begin(popCall(queue, "consumerGroup=g&wait=true&timeout=60000"))
	c.deleteMessage(letter{PartitionID: stored[0].PartitionID, TransactionID: "2"})
	c.deleteMessage(letter{PartitionID: stored[0].PartitionID, TransactionID: "1"})
	require.Equal(t, []string{"3"}, waiting.delivery().ok(http.StatusOK).ids(), "a lease must end when all its messages are deleted")
	require.Less(t, waiting.reply.Took, patience)
	require.Equal(t, "Message not found", *c.ackBatch("g", d.ack("completed")...).ok(http.StatusOK)[0].Error)
	require.Equal(t, 1, c.depth(queue))
}

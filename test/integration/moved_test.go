package integration_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

func moveCall(partitionID, transactionID, body string) call {
	return call{Method: http.MethodPatch, Target: messagePath(letter{PartitionID: partitionID, TransactionID: transactionID}, ""), Body: body}
}

// found finds a message by its transaction id.
func (c client) found(queue, partition, transactionID string) []api.ListedMessage {
	c.t.Helper()
	return ask[api.Messages](c, get("/api/v1/messages?queue="+escaped(queue)+"&partition="+escaped(partition)+"&transactionId="+escaped(transactionID))).
		ok(http.StatusOK).Messages
}

// remind pushes a message that is visible in an hour, and returns it as its producer finds it.
func (c client) remind(queue, transactionID string) api.ListedMessage {
	c.t.Helper()
	c.push(item{Queue: queue, Partition: "p", TransactionID: transactionID, DelaySeconds: 3600}).ok(http.StatusCreated)
	list := c.found(queue, "p", transactionID)
	require.Len(c.t, list, 1)
	return list[0]
}

// A producer finds its reminder by the transaction id, however old it is. Other messages of the partition are not in the answer.
func TestAMessageIsFoundByItsTransactionID(t *testing.T) {
	c := start(t).client(t)
	c.pushIDs("q", "p", "before")
	m := c.remind("q", "reminder")
	c.pushIDs("q", "p", "after")
	c.exec(`UPDATE belfry.message SET created_at = created_at - interval '3 days'`)
	require.Equal(t, "reminder", m.TransactionID)
	require.Equal(t, "pending", m.Status)
	require.WithinDuration(t, time.Now().Add(time.Hour), m.VisibleAt, time.Minute)
	list := c.found("q", "p", "reminder")
	require.Len(t, list, 1, "a reminder of three days ago")
	require.Equal(t, m.ID, list[0].ID)
	require.Zero(t, c.found("q", "p", "before")[0].VisibleAt)
	require.Empty(t, c.found("q", "p", "none"))
	require.Empty(t, c.found("q", "other", "reminder"))
	require.Empty(t, c.found("other", "p", "reminder"))
	for _, query := range []string{"?transactionId=reminder", "?queue=q&transactionId=reminder", "?partition=p&transactionId=reminder"} {
		require.Contains(t, ask[any](c, get("/api/v1/messages"+query)).failure, "send queue and partition too", query)
	}
	stored := ask[api.StoredMessage](c, get(messagePath(letter{PartitionID: m.PartitionID, TransactionID: "reminder"}, ""))).ok(http.StatusOK)
	require.True(t, m.VisibleAt.Equal(stored.VisibleAt))
}

// A waiting pop gets a message that is moved to an earlier instant, at that instant. Any instance may serve either request.
func TestAWaitingPopLearnsTheEarlierInstant(t *testing.T) {
	here, there := two(t)
	for name, c := range map[string]client{"the same instance": here, "another instance": there} {
		id := "reminder at " + name
		m := here.remind("q", id)
		require.Empty(t, here.popIDs("q", "consumerGroup=g"))
		waiting := here.begin(popCall("q", "consumerGroup=g&wait=true&timeout=60000"))
		here.untilWaiting(1)

		at := time.Now().Add(700 * time.Millisecond)
		moved := ask[api.MovedMessage](c, moveCall(m.PartitionID, id, fmt.Sprintf(`{"visibleAt":%q}`, at.Format(time.RFC3339Nano)))).ok(http.StatusOK)
		require.WithinDuration(t, at, *moved.VisibleAt, time.Millisecond)
		require.True(t, m.VisibleAt.Equal(*moved.VisibleAtBefore))
		watch := stopwatch.Start(t)
		d := waiting.delivery().ok(http.StatusOK)
		require.False(t, time.Now().Before(at), "the message came before its instant")
		watch.Within(t, 1700*time.Millisecond, "the delivery after a move to "+name)
		require.Equal(t, []string{id}, d.ids())
		require.True(t, here.ackBatch("g", d.ack("completed")...).ok(http.StatusOK)[0].Success)
	}
	m := here.remind("q", "now")
	require.Empty(t, here.popIDs("q", "consumerGroup=g"))
	waiting := here.begin(popCall("q", "consumerGroup=g&wait=true&timeout=60000"))
	here.untilWaiting(1)
	watch := stopwatch.Start(t)
	require.Nil(t, ask[api.MovedMessage](there, moveCall(m.PartitionID, "now", `{"visibleAt":null}`)).ok(http.StatusOK).VisibleAt)
	require.Equal(t, []string{"now"}, waiting.delivery().ok(http.StatusOK).ids())
	watch.Within(t, time.Second, "the delivery after a move to now")
}

// A message that is moved to a later instant is not delivered before it, and the later messages of its partition wait for it.
func TestALaterInstantHoldsTheMessage(t *testing.T) {
	c := start(t).client(t)
	c.pushIDs("q", "p", "a", "b", "c")
	m := c.found("q", "p", "b")[0]
	moved := ask[api.MovedMessage](c, moveCall(m.PartitionID, "b", `{"delaySeconds":1.5}`)).ok(http.StatusOK)
	require.Nil(t, moved.VisibleAtBefore)
	d := c.pop("q", "batch=9").ok(http.StatusOK)
	require.Equal(t, []string{"a"}, d.ids())
	require.True(t, c.ackBatch("", d.ack("completed")...).ok(http.StatusOK)[0].Success)
	require.Empty(t, c.popIDs("q", "batch=9"))
	d = c.pop("q", "batch=9&wait=true&timeout=30000").ok(http.StatusOK)
	require.False(t, time.Now().Before(*moved.VisibleAt), "b came before its instant")
	require.Equal(t, []string{"b", "c"}, d.ids())
}

// A message that a consumer holds, or that a group has finished, is not moved. The error names the group. A group that has
// skipped a reminder does not hold it for the others.
func TestAMessageThatIsDeliveredIsNotMoved(t *testing.T) {
	c := start(t).client(t)
	c.pushIDs("q", "p", "a")
	m := c.found("q", "p", "a")[0]
	move := moveCall(m.PartitionID, "a", `{"delaySeconds":60}`)
	require.Empty(t, c.popIDs("q", "consumerGroup=late&subscriptionMode=new"))
	require.Equal(t, http.StatusConflict, ask[any](c, move).Status, "no group waits")
	d := c.pop("q", "consumerGroup=g").ok(http.StatusOK)
	leased := ask[any](c, move)
	require.Equal(t, http.StatusConflict, leased.Status)
	require.Equal(t, `a consumer of consumer group "g" holds a lease on the message, so it is being processed: wait until the lease has ended`, leased.failure)
	require.True(t, c.ackBatch("g", d.ack("completed")...).ok(http.StatusOK)[0].Success)
	done := ask[any](c, move)
	require.Equal(t, http.StatusConflict, done.Status)
	require.Contains(t, done.failure, `consumer group "g" has finished the message`)

	reminder := c.remind("q", "reminder")
	require.Empty(t, c.popIDs("q", "consumerGroup=later&subscriptionMode=new"))
	ask[any](c, moveCall(reminder.PartitionID, "reminder", `{"visibleAt":null}`)).ok(http.StatusOK)
	require.Equal(t, []string{"reminder"}, c.popIDs("q", "consumerGroup=g"), "the group later has skipped it, and g waits")
}

// A move is in the audit with both instants. A repeated move, and a move of an encrypted message, succeed.
func TestAMoveIsRecorded(t *testing.T) {
	c := start(t).client(t)
	c.configure("q", map[string]any{"encryptionEnabled": true})
	m := c.remind("q", "r/1 %")
	body := fmt.Sprintf(`{"visibleAt":%q}`, time.Now().Add(2*time.Hour).In(time.FixedZone("CET", 3600)).Format(time.RFC3339))
	first := ask[api.MovedMessage](c, moveCall(m.PartitionID, "r/1 %", body)).ok(http.StatusOK)
	again := ask[api.MovedMessage](c, moveCall(m.PartitionID, "r/1 %", body)).ok(http.StatusOK)
	require.Equal(t, first.VisibleAt, again.VisibleAt)
	require.Equal(t, first.VisibleAt, again.VisibleAtBefore)
	rows := c.audit("action=message.move").Entries
	require.Len(t, rows, 2)
	require.Equal(t, "q", rows[1].Queue)
	require.Contains(t, string(rows[1].Parameters), m.VisibleAt.UTC().Format("2006-01-02T15:04:05"))
	require.Contains(t, string(rows[1].Parameters), first.VisibleAt.UTC().Format("2006-01-02T15:04:05"))
	for body, want := range map[string]string{
		`{}`:                                   "must have one of visibleAt and delaySeconds",
		`{"visibleAt":null,"delaySeconds":1}`:  "must have one of visibleAt and delaySeconds",
		`{"visibleAt":"tomorrow"}`:             "must be an instant as in RFC 3339",
		`{"visibleAt":"2999-01-01T00:00:00Z"}`: "(a year) from now",
		`{"delaySeconds":-1}`:                  "must be a number between 0 and 31536000 (a year)",
		`{"delaySeconds":null}`:                "must be a number",
		`{"delay":1}`:                          "the member \"delay\" is not known: send visibleAt or delaySeconds",
	} {
		refused := ask[any](c.loose(), moveCall(m.PartitionID, "r/1 %", body))
		require.Equal(t, http.StatusBadRequest, refused.Status, body)
		require.Contains(t, refused.failure, want, body)
	}
	require.Equal(t, http.StatusNotFound, ask[any](c, moveCall(m.PartitionID, "none", body)).Status)
	require.Equal(t, http.StatusNotFound, ask[any](c, moveCall("none", "r/1 %", body)).Status)
	ask[any](c, moveCall(m.PartitionID, "r/1 %", `{"delaySeconds":0}`)).ok(http.StatusOK)
	require.Equal(t, []string{"r/1 %"}, c.popIDs("q", ""))
}

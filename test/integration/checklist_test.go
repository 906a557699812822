package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/stopwatch"
)

// TestChecklist is the numbered conformance checklist of the compatible API. 13, streams, is not served. Other tests
// cover each point in detail.
func TestChecklist(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, c client, queue string){
		"01 arrays and objects":                          checklist01,
		"02 statuses, and no request hangs":              checklist02,
		"03 a push is visible once it is acknowledged":   checklist03,
		"04 one live lease of a partition and group":     checklist04,
		"05 order, redelivery, retryLimit, dead letter":  checklist05,
		"06 one message of a transaction id":             checklist06,
		"07 the stored subscription wins":                checklist07,
		"08 payloads keep their bytes":                   checklist08,
		"09 every empty pop is empty":                    checklist09,
		"10 the queue whose name is empty":               checklist10,
		"11 long polls end in time and wake with a push": checklist11,
		"12 all options are echoed":                      checklist12,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t), strings.ReplaceAll(t.Name(), "/", "."))
		})
	}
}

func checklist01(t *testing.T, c client, queue string) {
	kind := func(kind string, r reply) {
		require.Equal(t, kind, string(r.Raw[:1]), "%s", r.Raw)
	}
	kind("{", c.configure(queue, nil).reply)
	kind("[", c.push(item{Queue: queue, TransactionID: "1"}, item{Queue: queue, TransactionID: "2"}, item{Queue: queue, TransactionID: "3"}).reply)
	popped := c.pop(queue, "batch=3")
	kind("{", popped.reply)
	kind("{", c.extend(popped.body.LeaseID, `{}`).reply)
	kind("[", c.ack(popped.body.ack("completed", 0)[0]).reply)
	kind("[", c.ackBatch("", popped.body.ack("completed", 1)...).reply)
	kind("{", c.transact(nil, popped.body.acking("completed", 2)...).reply)
}

func checklist02(t *testing.T, c client, queue string) {
	for _, want := range []struct {
		status int
		call
	}{
		{http.StatusCreated, pushCall(item{Queue: queue})},
		{http.StatusCreated, pushCall([]item{}...)},
		{http.StatusOK, popCall(queue, "")},
		{http.StatusNoContent, popCall(queue, "")},
		{http.StatusNoContent, popCall(queue, "wait=true&timeout=1")},
		{http.StatusOK, ackBatchCall("", []ackItem{}...)}, // the reference never answers it
		{http.StatusOK, ackCall(ackItem{TransactionID: "nobody", PartitionID: "nowhere"})},
		{http.StatusOK, transactCall(nil, operation{Type: "ack", TransactionID: "nobody", PartitionID: "nowhere"})},
		{http.StatusNotFound, extendCall("nobody", `{}`)},
		{http.StatusNotFound, get("/api/v1/nothing")},
		{http.StatusMethodNotAllowed, get("/api/v1/push")},
		{http.StatusBadRequest, post("/api/v1/push", "")},
		{http.StatusBadRequest, post("/api/v1/push", `{"items":`)},
		{http.StatusBadRequest, post("/api/v1/transaction", `{}`)},
	} {
		got := ask[any](c, want.call)
		require.Equal(t, want.status, got.Status, "%s %s: %s", want.Method, want.Target, got.Raw)
		require.Equal(t, want.status == http.StatusNoContent, len(got.Raw) == 0)
	}
}

func checklist03(t *testing.T, c client, queue string) {
	for i := range 20 {
		id := fmt.Sprint(i)
		c.pushIDs(queue, "p"+id, id)
		require.Equal(t, []string{id}, c.popIDs(queue, "autoAck=true"), "from any partition")
		one := c.popPartition(queue, "p"+id, "autoAck=true&consumerGroup=g").ok(http.StatusOK)
		require.Equal(t, []string{id}, one.ids(), "from this one")
	}
}

func checklist04(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p1", "1", "2")
	c.pushIDs(queue, "p2", "3")
	d := c.pop(queue, "batch=3&partitions=2").ok(http.StatusOK)
	places := map[string][]int{}
	for i, m := range d.Messages {
		require.Equal(t, d.LeaseID, m.LeaseID)
		places[m.Partition] = append(places[m.Partition], i)
	}
	require.Len(t, places["p1"], 2)
	require.Len(t, places["p2"], 1)
	c.pushIDs(queue, "p1", "4")
	c.pushIDs(queue, "p2", "5")
	require.Empty(t, c.popIDs(queue, "batch=9&partitions=9"))
	require.False(t, c.ackBatch("", d.ack("completed", places["p1"][0])...).ok(http.StatusOK)[0].released())
	require.Empty(t, c.popIDs(queue, "batch=9&partitions=9"))
	require.True(t, c.ackBatch("", d.ack("completed", places["p1"][1])...).ok(http.StatusOK)[0].released())
	require.Equal(t, []string{"4"}, c.popIDs(queue, "batch=9&partitions=9"))
}

func checklist05(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"retryLimit": 1}).ok(http.StatusOK)
	c.pushIDs(queue, "p", "1", "2", "3", "4")
	d := c.pop(queue, "batch=3").ok(http.StatusOK)
	require.Equal(t, []string{"1", "2", "3"}, d.ids())
	c.ackBatch("", d.ack("completed", 0)...).ok(http.StatusOK)
	require.False(t, c.ackBatch("", d.ack("failed", 1)...).ok(http.StatusOK)[0].DLQ)
	d = c.pop(queue, "batch=3").ok(http.StatusOK)
	require.Equal(t, []string{"2", "3", "4"}, d.ids(), "the failed message and everything after it")
	require.True(t, c.ackBatch("", d.ack("failed", 0)...).ok(http.StatusOK)[0].DLQ)
	c.ackBatch("", d.ack("completed", 2)...).ok(http.StatusOK)
	c.ackBatch("", d.ack("completed", 1)...).ok(http.StatusOK)
	require.Empty(t, c.popIDs(queue, "batch=9"), "the cursor does not go back")
}

func checklist06(t *testing.T, c client, queue string) {
	results := c.push(item{Queue: queue, TransactionID: "a"}, item{Queue: queue, TransactionID: "a"}, item{Queue: queue, Partition: "other", TransactionID: "a"}).ok(http.StatusCreated)
	again := c.pushIDs(queue, "", "a")[0]
	require.Equal(t, []string{"queued", "duplicate", "queued", "duplicate"}, []string{results[0].Status, results[1].Status, results[2].Status, again.Status})
	require.Equal(t, results[0].MessageID, results[1].MessageID)
	require.Equal(t, results[0].MessageID, again.MessageID)
	require.Len(t, c.popIDs(queue, "batch=9&partitions=9"), 2)
}

func checklist07(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "", "old")
	require.Empty(t, c.popIDs(queue, "consumerGroup=g&subscriptionMode=new"))
	c.pushIDs(queue, "", "new")
	require.Equal(t, []string{"new"}, c.popIDs(queue, "consumerGroup=g&batch=9&subscriptionMode=all"))
}

func checklist08(t *testing.T, c client, queue string) {
	large := `"` + strings.Repeat("x", 1<<20) + `"`
	for _, sent := range []string{`null`, large, `{"z":"grüße 世界 🎉","a":[1.50, 1E5]}`} {
		pushRaw(c, queue, sent).ok(http.StatusCreated)
		got := c.pop(queue, "autoAck=true").ok(http.StatusOK)
		require.True(t, bytes.Equal([]byte(sent), got.Messages[0].Data), "%.100s", got.Messages[0].Data)
	}
}

func checklist09(t *testing.T, c client, queue string) {
	c.pushIDs(queue, "p", "m")
	held := c.pop(queue, "").ok(http.StatusOK)
	for _, what := range []call{
		popCall(queue+"unknown", ""), popPartitionCall(queue+"unknown", "p", ""), popPartitionCall(queue, "unknown", ""),
		popTaggedCall("namespace=" + queue + "unknown"), popCall(queue, ""), popPartitionCall(queue, held.Partition, ""),
		popCall(queue, "wait=true&timeout=10"), popPartitionCall(queue, "p", "batch=0"),
	} {
		got := ask[delivery](c, what)
		require.Empty(t, got.ok(http.StatusNoContent).Messages, what.Target)
		require.Empty(t, got.Raw)
	}
	require.False(t, c.storedQueue(queue+"unknown"), "a pop creates no queue")
}

func checklist10(t *testing.T, c client, _ string) {
	require.Empty(t, c.configure("", nil).ok(http.StatusOK).Queue)
	require.Equal(t, "queued", c.pushIDs("", "", "m")[0].Status)
	require.True(t, c.transact(nil, pushing(item{TransactionID: "n"})).ok(http.StatusOK).Success)
}

func checklist11(t *testing.T, c client, queue string) {
	const timeout = 500 * time.Millisecond
	c.configure(queue, nil).ok(http.StatusOK)
	watch := stopwatch.Start(t)
	empty := c.pop(queue, fmt.Sprintf("wait=true&timeout=%d", timeout.Milliseconds()))
	require.Equal(t, http.StatusNoContent, empty.Status)
	require.Greater(t, empty.Took, timeout/2)
	watch.Within(t, patience, "a pop without a message is answered")
	waiting := c.begin(popCall(queue, "wait=true&timeout=60000"))
	c.untilParked(t, queue, 1)
	c.pushIDs(queue, "", "m")
	require.Equal(t, []string{"m"}, waiting.delivery().ok(http.StatusOK).ids())
}

func checklist12(t *testing.T, c client, queue string) {
	sent := map[string]any{
		"leaseTime": 1.0, "retryLimit": 2.0, "delayedProcessing": 3.0, "windowBuffer": 4.0, "encryptionEnabled": true,
		"retentionEnabled": true, "retentionSeconds": 5.0, "completedRetentionSeconds": 6.0, "maxWaitTimeSeconds": 7.0,
		"maxSize": 8.0, "priority": 9.0, "retryDelay": 10.0, "ttl": 11.0, "deadLetterQueue": true, "dlqAfterMaxRetries": true,
	}
	got := c.configure(queue, sent).ok(http.StatusOK).Options
	for option, value := range sent {
		require.Equal(t, value, got[option], option)
	}
	require.Len(t, sent, 15)
}

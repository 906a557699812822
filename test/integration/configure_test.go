package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

// defaultOptions returns the fifteen options of a queue that is created without options, as JSON values.
func defaultOptions() map[string]any {
	return map[string]any{
		"leaseTime": 300.0, "retryLimit": 3.0, "delayedProcessing": 0.0, "windowBuffer": 0.0, "encryptionEnabled": false,
		"retentionEnabled": false, "retentionSeconds": 0.0, "completedRetentionSeconds": 0.0, "maxWaitTimeSeconds": 0.0,
		"maxSize": 0.0, "priority": 0.0, "retryDelay": 0.0, "ttl": 3600.0, "deadLetterQueue": false, "dlqAfterMaxRetries": false,
	}
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, run := range map[string]func(t *testing.T, c client, queue string){
		"echo":           configureEcho,
		"tags":           configureTags,
		"the empty name": configureEmptyName,
		"lease time":     configureLeaseTime,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s.client(t), t.Name())
		})
	}
}

func configureEcho(t *testing.T, c client, queue string) {
	plain := c.configure(queue, nil)
	got := plain.ok(http.StatusOK)
	require.Equal(t, []string{"configured", "namespace", "options", "partitionId", "queue", "queueId", "task"}, keys(t, plain.Raw))
	requireUUID(t, got.QueueID, got.PartitionID)
	require.Equal(t, configured{
		Configured: true, QueueID: got.QueueID, PartitionID: got.PartitionID, Queue: queue, Options: defaultOptions(),
	}, got)

	sent := map[string]any{
		"leaseTime": 11.0, "retryLimit": 0.0, "delayedProcessing": 12.0, "windowBuffer": 13.0, "encryptionEnabled": true,
		"retentionEnabled": true, "retentionSeconds": 14.0, "completedRetentionSeconds": 15.0, "maxWaitTimeSeconds": 16.0,
		"maxSize": 17.0, "priority": -18.0, "retryDelay": 19.0, "ttl": 2147483647.0, "deadLetterQueue": true, "dlqAfterMaxRetries": true,
	}
	again := c.configure(queue, sent).ok(http.StatusOK)
	require.Equal(t, sent, again.Options)
	require.Equal(t, got.QueueID, again.QueueID)
	require.Equal(t, got.PartitionID, again.PartitionID)
	require.Equal(t, got.PartitionID, c.pushIDs(queue, "", "1")[0].PartitionID, "the partition must be Default")
}

func TestEncryptionWithoutAKeyFailsClosed(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *config.Config) { cfg.Encryption.Key = "" }).client(t)
	made := c.configure("secret", map[string]any{"encryptionEnabled": true}).ok(http.StatusOK)
	require.Equal(t, []string{"options.encryptionEnabled is true and encryption.key is not set: this server refuses pushes to the queue"}, made.Warnings)
	c.push(item{Queue: "secret"}).refused(`queue "secret" has encryptionEnabled, and this server cannot encrypt: ` +
		"set encryption.key, or encryption.allow_plaintext to store its messages unencrypted")
	c.pushIDs("other", "", "1")
	require.Empty(t, c.popIDs("secret", ""))
}

func configureTags(t *testing.T, c client, queue string) {
	tag := func(tags string) configured {
		return ask[configured](c.loose(), post(configurePath, `{"queue":"`+queue+`"`+tags+`}`)).ok(http.StatusOK)
	}
	c.pushIDs(queue, "", "1")
	tagged := tag(`,"namespace":"my space","task":"é"`)
	require.Equal(t, "my space", tagged.Namespace)
	require.Equal(t, "é", tagged.Task)
	require.Equal(t, []string{"1"}, ask[delivery](c, popTaggedCall("namespace=my+space&task=%C3%A9&consumerGroup=a")).ok(http.StatusOK).ids())
	for _, tags := range []string{``, `,"namespace":null,"task":null`, `,"namespace":7,"task":{}`} {
		require.Equal(t, "my space", tag(`,"namespace":"my space","task":"é"`).Namespace)
		bare := tag(tags)
		require.Empty(t, bare.Namespace+bare.Task, "tags that a request does not send must be reset")
		require.Equal(t, http.StatusNoContent, ask[delivery](c, popTaggedCall("namespace=my+space&consumerGroup=b")).Status)
	}
}

// No path can contain the empty name. So its messages are popped by tags.
func configureEmptyName(t *testing.T, c client, _ string) {
	got := ask[configured](c, post(configurePath, `{"queue":"","namespace":"empty name"}`)).ok(http.StatusOK)
	require.Empty(t, got.Queue)
	require.Equal(t, "empty name", got.Namespace)
	pushed := c.pushIDs("", "", "1")[0]
	require.Equal(t, "queued", pushed.Status)
	require.Equal(t, got.PartitionID, pushed.PartitionID)
	d := ask[delivery](c, popTaggedCall("namespace=empty+name")).ok(http.StatusOK)
	require.Equal(t, []string{"1"}, d.ids())
	require.Empty(t, d.Queue)
	require.True(t, c.ackBatch("", d.ack("completed")...).ok(http.StatusOK)[0].released())
	require.True(t, c.transact(nil, pushing(item{TransactionID: "n"})).ok(http.StatusOK).Success)
}

func configureLeaseTime(t *testing.T, c client, queue string) {
	c.configure(queue, map[string]any{"leaseTime": 0}).ok(http.StatusOK)
	c.pushIDs(queue, "", "1")
	lease := c.pop(queue, "").ok(http.StatusOK).LeaseID
	requireEnd(t, c.extend(lease, `{"seconds":1}`).ok(http.StatusOK), 60*time.Second)
}

func TestOperatorDefaults(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *config.Config) {
		cfg.Defaults.LeaseTime = 1000 * time.Second
		cfg.Defaults.RetryLimit = 0
		cfg.Defaults.PopBatchSize = 2
		cfg.Defaults.PopTimeout = 500 * time.Millisecond
	}).client(t)
	got := c.configure("q", nil).ok(http.StatusOK)
	require.InDelta(t, 1000.0, got.Options["leaseTime"], 0)
	require.InDelta(t, 0.0, got.Options["retryLimit"], 0)

	c.pushIDs("created by push", "", "1", "2", "3")
	d := c.pop("created by push", "").ok(http.StatusOK)
	require.Len(t, d.Messages, 2)
	requireEnd(t, c.extend(d.LeaseID, `{"seconds":1}`).ok(http.StatusOK), 1000*time.Second)
	require.True(t, c.ack(d.ack("failed", 0)[0]).ok(http.StatusOK)[0].DLQ)
	require.Equal(t, http.StatusNoContent, c.pop("q", "wait=true").Status, "the pop must use the configured default timeout")
}

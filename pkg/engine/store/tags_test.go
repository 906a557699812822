package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// tagged is a pop from the queues of namespace "ns".
func tagged(batch int) *queue.PopRequest {
	return &queue.PopRequest{Tags: &queue.Tags{Namespace: "ns"}, Group: "g", Batch: batch, Partitions: 1}
}

// A pop by tags skips a queue whose payloads it cannot decrypt and serves the other queues. If the
// other queues are empty, it returns the decryption error.
func TestAPopByTagsSkipsAQueueItCannotDecrypt(t *testing.T) {
	t.Parallel()
	for name, autoAck := range map[string]bool{"leased": false, "autoAck": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
			require.NoError(t, err)
			withKey := newStore(t, b.pool, prometheus.NewRegistry(), sealer)
			pushTo := func(name, id string) {
				t.Helper()
				_, err := withKey.Push(t.Context(), []queue.PushItem{{Queue: name, Partition: id, TransactionID: id, Payload: []byte(`{}`)}})
				require.NoError(t, err)
			}
			b.exec(`INSERT INTO belfry.queue (name, namespace, task, lease_time, retry_limit, encryption_enabled, priority)
				VALUES ('ns.first', 'ns', 'first', 300, 3, true, 9)`)
			pushTo("ns.first", "sealed")
			pushTo("ns.second", "plain")

			req := tagged(9)
			req.AutoAck = autoAck
			d := b.pop(req)
			require.Equal(t, []string{"plain"}, transactionIDs(d))
			require.Equal(t, "ns.second", d.Queue)
			require.EqualValues(t, 1, enginetest.Metric(t, b.reg, "belfry_pops_unopened_total"))
			require.Empty(t, b.pop(req).Messages, "the partition is due later")
			b.retryNow()
			_, err = b.Pop(t.Context(), req)
			require.ErrorIs(t, err, seal.ErrNoKey, "no other queue has a message")
			pushTo("ns.second", "later")
			require.Equal(t, []string{"later"}, transactionIDs(b.pop(req)))

			b.retryNow()
			whole, err := withKey.Pop(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, []string{"sealed"}, transactionIDs(whole), "the lease was released")
		})
	}
}

// A group is deleted while a pop by tags waits, and the pop creates it again. Messages from before
// the deletion are not new to that group, as for a pop of one queue.
func TestAWaitingPopByTagsRecreatesItsGroupWithoutOldMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	push := func(name, id string) {
		t.Helper()
		_, err := b.Push(t.Context(), []queue.PushItem{{Queue: name, Partition: "p", TransactionID: id, Payload: []byte(`{}`)}})
		require.NoError(t, err)
	}
	push("ns.q", "long before")
	b.exec(`UPDATE belfry.queue SET created_at = created_at - interval '1 day'`)
	b.exec(`UPDATE belfry.message SET created_at = created_at - interval '1 day'`)
	b.exec(`UPDATE belfry.partition SET last_push_at = last_push_at - interval '1 day'`)
	req := tagged(9)
	req.WaitingSince, req.Subscription = time.Now().Add(-time.Minute), queue.Subscription{Mode: queue.SubscribeNew}
	require.Empty(t, b.pop(req).Messages)
	push("ns.q", "before")
	b.exec(`DELETE FROM belfry.consumer_group`)
	req.RefreshSince = time.Now()
	push("ns.created", "in a new queue")
	require.Equal(t, []string{"in a new queue"}, transactionIDs(b.pop(req)))
	require.Empty(t, b.pop(req).Messages)
	push("ns.q", "after")
	require.Equal(t, []string{"after"}, transactionIDs(b.pop(req)))
}

package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A store may cache a queue as a queue without encryptionEnabled. It stores no clear text after
// this or another instance has set encryptionEnabled.
func TestASealedQueueStoresNoClearText(t *testing.T) {
	b := newBench(t)
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
	require.NoError(t, err)
	keyless := b.Store
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), sealer)
	push := func(id string) {
		plain := item("p", id)
		plain.Payload = []byte(`{"clear": 1.0}`)
		_, err := b.Push(t.Context(), []queue.PushItem{plain})
		require.NoError(t, err)
	}
	push("open")
	b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
	push("sealed")
	var inClear int
	b.scan(`SELECT count(*) FROM belfry.message WHERE payload::text LIKE '%clear%'`, nil, &inClear)
	require.Equal(t, 1, inClear)

	consumed := request("g", 10, withAutoAck(true))
	d, err := keyless.Pop(t.Context(), consumed)
	require.NoError(t, err)
	require.Equal(t, []string{"open"}, transactionIDs(d))
	for _, autoAck := range []bool{false, true} {
		req := request("g", 10, withAutoAck(autoAck))
		_, err = keyless.Pop(t.Context(), req)
		require.ErrorIs(t, err, seal.ErrNoKey, "without the key no message is delivered or lost")
		b.retryNow()
	}
	d = b.pop(request("g", 10))
	require.Equal(t, []string{"sealed"}, transactionIDs(d))
	require.Equal(t, `{"clear": 1.0}`, string(d.Messages[0].Payload))

	b.exec(`UPDATE belfry.queue SET encryption_enabled = false`)
	push("open again")
	b.scan(`SELECT count(*) FROM belfry.message WHERE payload::text LIKE '%clear%'`, nil, &inClear)
	require.Equal(t, 2, inClear)
}

// Without a key, a store refuses messages and stores no clear text, even if it cached the queue
// before encryptionEnabled was set.
func TestAPushThatCannotBeSealedIsRefused(t *testing.T) {
	b := newBench(t)
	b.push("p", "before")
	b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
	mixed := []queue.PushItem{item("p", "sealed"), item("p", "sealed too")}
	mixed[0].Queue = "other"
	pushes := func(s *store.Store) map[string]error {
		_, push := s.Push(t.Context(), mixed)
		_, transact := s.Transact(t.Context(), &queue.Transaction{Operations: []queue.Operation{{Push: &mixed[1]}}})
		return map[string]error{"push": push, "transaction": transact}
	}
	for name, err := range pushes(b.Store) {
		require.Equal(t, queue.CodeInvalid, queue.CodeOf(err), name)
		require.ErrorContains(t, err, `queue "q" has encryptionEnabled`, name)
		require.ErrorContains(t, err, "set encryption.key", name)
	}
	var stored int
	b.scan(`SELECT count(*) FROM belfry.message`, nil, &stored)
	require.Equal(t, 1, stored, "no message of a refused call is stored")
	require.EqualValues(t, 3, enginetest.Metric(t, b.reg, "belfry_messages_refused_without_key_total"))

	plaintext, err := seal.New(seal.Config{AllowPlaintext: true})
	require.NoError(t, err)
	mixed[1].TransactionID = ""
	for name, err := range pushes(newStore(t, b.pool, prometheus.NewRegistry(), plaintext)) {
		require.NoError(t, err, name)
	}
	b.scan(`SELECT count(*) FROM belfry.message WHERE NOT encrypted`, nil, &stored)
	require.Equal(t, 4, stored, "with encryption.allow_plaintext, the messages are stored")
}

// A payload that was copied to another message cannot be decrypted. The error names the message.
// With encryption.keys, messages with an earlier key are delivered.
func TestAnEncryptedPayloadBelongsToItsMessage(t *testing.T) {
	b := newBench(t, "g")
	b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
	earlier, err := seal.New(seal.Config{Keys: setting.Secret("old:" + strings.Repeat("7", 64))})
	require.NoError(t, err)
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), earlier)
	pushed := b.push("p", "one", "two")
	ring, err := seal.New(seal.Config{Keys: setting.Secret("new:" + strings.Repeat("8", 64) + ",old:" + strings.Repeat("7", 64))})
	require.NoError(t, err)
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), ring)
	b.push("p", "three")
	b.exec(`UPDATE belfry.message SET payload = (SELECT payload FROM belfry.message WHERE transaction_id = 'one')
		WHERE transaction_id = 'two'`)
	for _, autoAck := range []bool{false, true} {
		req := request("g", 10, withAutoAck(autoAck))
		d := b.pop(req)
		require.Equal(t, []string{"one"}, transactionIDs(d), "the messages before the damaged message are delivered")
		if !autoAck {
			require.True(t, b.ack(d, queue.AckRetry, d.Messages...)[0].Success)
			b.retryNow()
			continue
		}
		_, err = b.Pop(t.Context(), req)
		require.ErrorContains(t, err, "message "+pushed[1].MessageID.String())
		b.retryNow()
	}
	b.exec(`DELETE FROM belfry.message WHERE transaction_id = 'two'`)
	require.Equal(t, []string{"three"}, transactionIDs(b.pop(request("g", 10))))
}

// A message that cannot be decrypted fails only one pop per minute. The other partitions of the
// group are delivered. No message of its partition is leased or consumed.
func TestAMessageThatCannotBeOpenedIsPassedOver(t *testing.T) {
	t.Parallel()
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprint("autoAck ", autoAck), func(t *testing.T) {
			b := newBench(t, "g")
			b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
			var pushed []queue.PushResult
			for id, key := range []string{"lost:" + strings.Repeat("7", 64), "new:" + strings.Repeat("8", 64)} {
				sealer, err := seal.New(seal.Config{Keys: setting.Secret(key)})
				require.NoError(t, err)
				b.reg = prometheus.NewRegistry()
				b.Store = newStore(t, b.pool, b.reg, sealer)
				if id == 0 {
					pushed = b.push("p1", "a/b", "later")
				} else {
					b.push("p2", "d")
					b.push("p3", "e")
				}
			}
			req := request("g", 10, withAutoAck(autoAck), across(3))
			require.ElementsMatch(t, []string{"d", "e"}, transactionIDs(b.pop(req)))
			require.Empty(t, b.pop(req).Messages)
			require.NotContains(t, b.cursorStates("g"), "consumed 2")
			b.push("p4", "f")
			require.Equal(t, []string{"f"}, transactionIDs(b.pop(req)), "the group receives other messages meanwhile")

			b.retryNow()
			_, err := b.Pop(t.Context(), req)
			require.Equal(t, queue.CodeUndeliverable, queue.CodeOf(err))
			var coded *queue.Error
			require.ErrorAs(t, err, &coded)
			for _, want := range []string{
				pushed[0].MessageID.String(), `queue "q"`, `partition "p1"`, `transaction id "a/b"`, `encryption.keys has no key "lost"`,
				"add its key to encryption.keys", "/a%2Fb/dlq",
			} {
				require.Contains(t, coded.Message, want)
			}
			require.EqualValues(t, 2, enginetest.Metric(t, b.reg, "belfry_pops_unopened_total"))
			require.Zero(t, b.stranded())
		})
	}
}

// The store undoes an autoAck delivery that it cannot decrypt. The dead letter after it stays a
// dead letter.
func TestTakingBackADeliveryKeepsItsDeadLetters(t *testing.T) {
	b := newBench(t, "g")
	keyless := b.sealing()
	b.push("p", "a", "b", "c", "d")
	d := b.pop(request("g", 4))
	require.True(t, b.ack(d, queue.AckDead, d.Messages[2])[0].DeadLettered)
	require.True(t, b.ack(d, queue.AckRetry, d.Messages[0])[0].Success)

	req := request("g", 3) // a and b: up to the dead letter
	req.AutoAck = true
	_, err := keyless.Pop(t.Context(), req)
	require.ErrorIs(t, err, seal.ErrNoKey)
	b.retryNow()
	d = b.pop(request("g", 4))
	require.Equal(t, []string{"a", "b"}, transactionIDs(d))
	b.ack(d, queue.AckCompleted, d.Messages...)
	require.Equal(t, []string{"d"}, transactionIDs(b.pop(request("g", 4))))
}

// Undoing a delivery restores the failures and attempts of each partition, so retryLimit still
// applies. A partition without failures still has no failures.
func TestTakingBackADeliveryKeepsItsFailures(t *testing.T) {
	b := newBench(t, "g")
	keyless := b.sealing()
	b.push("p", "a", "b")
	b.push("other", "c")
	for range 2 {
		d := b.pop(request("g", 1))
		require.Equal(t, []string{"a"}, transactionIDs(d))
		b.ack(d, queue.AckFailed, d.Messages...)
		b.exec(`UPDATE belfry.cursor SET ready_at = '2020-01-01' WHERE failures > 0`)
	}
	req := request("g", 3, withAutoAck(true), across(2))
	before := b.cursorStates("g")
	_, err := keyless.Pop(t.Context(), req)
	require.ErrorIs(t, err, seal.ErrNoKey)
	require.Equal(t, before, b.cursorStates("g"))
	require.Contains(t, before, "failures 2 attempts 2")
}

// tagged returns a pop from the queues of namespace "ns".
func tagged(batch int) *queue.PopRequest {
	return &queue.PopRequest{Tags: &queue.Tags{Namespace: "ns"}, Group: "g", Batch: batch, Partitions: 1}
}

// A pop by tags skips a queue whose payloads it cannot decrypt and serves the other queues. If the
// other queues are empty, it returns the decryption error.
func TestAPopByTagsSkipsAQueueItCannotDecrypt(t *testing.T) {
	t.Parallel()
	for name, autoAck := range map[string]bool{"leased": false, "autoAck": true} {
		t.Run(name, func(t *testing.T) {
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

// A group is deleted while a pop by tags waits, and the pop creates it again. With the mode "new",
// the new group does not get messages from before the deletion, as for a pop of one queue.
func TestAWaitingPopByTagsRecreatesItsGroupWithoutOldMessages(t *testing.T) {
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

package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A store that caches a queue as unsealed does not store clear text after encryptionEnabled was
// set, whichever instance set it.
func TestASealedQueueStoresNoClearText(t *testing.T) {
	t.Parallel()
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

	consumed := request("g", 10)
	consumed.AutoAck = true
	d, err := keyless.Pop(t.Context(), consumed)
	require.NoError(t, err)
	require.Equal(t, []string{"open"}, transactionIDs(d))
	for _, autoAck := range []bool{false, true} {
		req := request("g", 10)
		req.AutoAck = autoAck
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

// Encryption fails closed: without a key nothing is stored in the clear, also if the store cached the
// queue before encryptionEnabled was set.
func TestAPushThatCannotBeSealedIsRefused(t *testing.T) {
	t.Parallel()
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
	require.Equal(t, 1, stored, "nothing of a refused call is stored")
	require.EqualValues(t, 3, enginetest.Metric(t, b.reg, "belfry_messages_refused_without_key_total"))

	plaintext, err := seal.New(seal.Config{AllowPlaintext: true})
	require.NoError(t, err)
	mixed[1].TransactionID = ""
	for name, err := range pushes(newStore(t, b.pool, prometheus.NewRegistry(), plaintext)) {
		require.NoError(t, err, name)
	}
	b.scan(`SELECT count(*) FROM belfry.message WHERE NOT encrypted`, nil, &stored)
	require.Equal(t, 4, stored, "encryption.allow_plaintext stores them")
}

// A payload that was moved to another message cannot be opened there. The error names the message.
// With a key ring, messages of the earlier key are delivered.
func TestAnEncryptedPayloadBelongsToItsMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
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
		req := request("g", 10)
		req.AutoAck = autoAck
		d := b.pop(req)
		require.Equal(t, []string{"one"}, transactionIDs(d), "the messages before it are delivered")
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

// A message that cannot be opened fails one pop a minute. The other partitions of its group are
// delivered, and nothing of its own partition is leased or consumed.
func TestAMessageThatCannotBeOpenedIsPassedOver(t *testing.T) {
	t.Parallel()
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprint("autoAck ", autoAck), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.register("g")
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
			req := request("g", 10)
			req.AutoAck, req.Partitions = autoAck, 3
			require.ElementsMatch(t, []string{"d", "e"}, transactionIDs(b.pop(req)))
			require.Empty(t, b.pop(req).Messages)
			require.NotContains(t, b.cursorStates("g"), "consumed 2")
			b.push("p4", "f")
			require.Equal(t, []string{"f"}, transactionIDs(b.pop(req)), "the group is served meanwhile")

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

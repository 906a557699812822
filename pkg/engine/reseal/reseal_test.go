package reseal_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/reseal"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// olderEnvelope returns an envelope in the format of versions without encryption.keys.
func olderEnvelope(t *testing.T, key string, payload []byte) string {
	t.Helper()
	raw, err := hex.DecodeString(key)
	require.NoError(t, err)
	block, err := aes.NewCipher(raw)
	require.NoError(t, err)
	aead, err := cipher.NewGCMWithNonceSize(block, 16)
	require.NoError(t, err)
	iv := make([]byte, 16)
	box := aead.Seal(nil, iv, payload, nil)
	cut := len(box) - 16
	text, err := json.Marshal(map[string][]byte{"encrypted": box[:cut], "iv": iv, "authTag": box[cut:]})
	require.NoError(t, err)
	return string(text)
}

// unchanged selects all columns of messages except the payloads, and all cursors.
const unchanged = `SELECT concat_ws('/',
	(SELECT string_agg(format('%s', (m.partition_id, m.seq, m.created_at, m.visible_at, m.id, m.trace_id, m.transaction_id, m.producer_sub)), ' '
	                   ORDER BY m.partition_id, m.seq) FROM belfry.message m),
	(SELECT string_agg(format('%s', c), ' ' ORDER BY c) FROM belfry.cursor c),
	(SELECT string_agg(format('%s', p), ' ' ORDER BY p.id) FROM belfry.partition p),
	(SELECT string_agg(m.payload::text, ' ' ORDER BY m.seq) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id
	  JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name <> 'q'))`

// Messages with each kind of envelope get the current key. Nothing else in the database changes. An
// instance that has only the new key delivers the original payloads.
func TestAQueueMovesToTheCurrentKey(t *testing.T) {
	f := newFixture(t)
	reader := f.store(seal.Config{Keys: setting.Secret(newKey)})
	pop := func() queue.Delivery {
		d, err := reader.Pop(t.Context(), &queue.PopRequest{Queue: "q", Group: "g", Batch: 1000, Partitions: 100})
		require.NoError(t, err)
		return d
	}
	require.Empty(t, pop().Messages)
	f.push(seal.Config{Keys: setting.Secret(oldKey)}, "", numbered("old", 130)...)
	f.push(seal.Config{Key: setting.Secret(single)}, "p", "single", "older", "clear")
	f.push(seal.Config{Keys: setting.Secret(newKey)}, "p", "new")
	f.push(seal.Config{Keys: setting.Secret(oldKey)}, "z/ü", numbered("z", 100)...)
	f.exec(`UPDATE belfry.message SET payload = $1::text::json WHERE transaction_id = 'older'`, olderEnvelope(t, single, payloadOf("older")))
	f.exec(`UPDATE belfry.message SET payload = $1::text::json, encrypted = false WHERE transaction_id = 'clear'`, string(payloadOf("clear")))
	_, err := f.store(all).Push(t.Context(), []queue.PushItem{{Queue: "q2", Partition: "p", TransactionID: "q2", Payload: []byte(`{ }`)}})
	require.NoError(t, err)
	before := f.text(unchanged)

	kinds := map[string]int{"old": 230, "new": 1, reseal.SingleKey: 1, reseal.OlderKey: 1, reseal.ClearText: 1}
	checked := f.done(all, reseal.Options{Check: true})
	require.Equal(t, kinds, checked.Last.Messages)
	require.Zero(t, checked.Last.Failed+checked.Resealed)
	require.Equal(t, "230", f.text(`SELECT count(*)::text FROM belfry.message WHERE payload ->> 'keyId' = 'old'`), "a check changes nothing")

	report := f.done(all, reseal.Options{})
	require.Equal(t, reseal.Report{
		Current: "new", Passes: 2, Resealed: 233, Last: reseal.Counts{Messages: map[string]int{"new": 234}},
	}, report)
	require.Equal(t, before, f.text(unchanged))
	again := f.done(all, reseal.Options{})
	require.Zero(t, again.Resealed)
	require.Equal(t, 1, again.Passes)

	onlyNew := seal.Config{Keys: setting.Secret(newKey)}
	require.Zero(t, f.done(onlyNew, reseal.Options{Check: true}).Last.Failed)
	got := map[string]string{}
	for _, m := range pop().Messages {
		got[m.TransactionID] = string(m.Payload)
	}
	require.Len(t, got, 234)
	for id, payload := range got {
		require.Equal(t, string(payloadOf(id)), payload)
	}
}

// In a queue without encryptionEnabled, clear text stays. Encrypted payloads are resealed.
func TestClearTextOfAQueueWithoutEncryptionStays(t *testing.T) {
	f := newFixture(t)
	f.push(seal.Config{Keys: setting.Secret(oldKey)}, "p", "sealed")
	f.exec(`UPDATE belfry.queue SET encryption_enabled = false`)
	f.push(all, "p", "clear")
	// Some clear text looks like an envelope.
	f.exec(`UPDATE belfry.message SET payload = '{"keyId": "\u0000"}' WHERE transaction_id = 'clear'`)
	report := f.done(all, reseal.Options{})
	require.Equal(t, map[string]int{"new": 1, reseal.ClearText: 1}, report.Last.Messages)
	require.Equal(t, "true", f.text(`SELECT (payload::text = '{"keyId": "\u0000"}')::text FROM belfry.message WHERE transaction_id = 'clear'`))
}

// If a run is stopped or its connection ends, its pages stay resealed. The next run reseals the
// other messages.
func TestAnInterruptedRunIsRepeated(t *testing.T) {
	f := newFixture(t)
	f.push(seal.Config{Keys: setting.Secret(oldKey)}, "p", numbered("m", 250)...)
	ctx, stop := context.WithCancel(t.Context())
	report, err := f.run(ctx, all, reseal.Options{Progress: func(reseal.Progress) { stop() }})
	require.ErrorIs(t, err, reseal.ErrStopped)
	require.Equal(t, 100, report.Resealed)
	report, err = f.run(t.Context(), all, reseal.Options{Progress: func(p reseal.Progress) {
		if p.Read == 200 {
			f.exec(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
				WHERE application_name = 'belfry reseal' AND datname = current_database()`)
		}
	}})
	require.Error(t, err)
	require.Equal(t, 100, report.Resealed)
	report = f.done(all, reseal.Options{})
	require.Equal(t, 50, report.Resealed)
	require.Equal(t, map[string]int{"new": 250}, report.Last.Messages)
}

// Messages that cannot be decrypted or read stay unchanged, and the report names the first such messages.
// The other messages of their pages are resealed.
func TestMessagesThatCannotBeOpenedAreReported(t *testing.T) {
	f := newFixture(t)
	noise := make([]byte, 20_000)
	_, _ = rand.Read(noise)
	payload, err := json.Marshal(noise)
	require.NoError(t, err)
	_, err = f.store(seal.Config{Keys: setting.Secret(oldKey)}).Push(t.Context(), []queue.PushItem{{Queue: "q", Partition: "a", TransactionID: "damaged", Payload: payload}})
	require.NoError(t, err)
	pgtest.DamagePayloads(t, f.dsn)
	f.push(seal.Config{Keys: setting.Secret(oldKey)}, "a", numbered("a", 20)...)
	f.push(seal.Config{Keys: setting.Secret(lostKey)}, "b", numbered("lost", 11)...)
	f.push(seal.Config{Keys: setting.Secret(oldKey)}, "b", numbered("b", 20)...)
	f.exec(`UPDATE belfry.message SET payload = (SELECT payload FROM belfry.message WHERE transaction_id = 'b1') WHERE transaction_id = 'b2'`)

	for _, check := range []bool{true, false, true} {
		report := f.done(all, reseal.Options{Check: check})
		require.Equal(t, 13, report.Last.Failed)
		require.Len(t, report.Last.Failures, reseal.MaxFailures)
		first, second := report.Last.Failures[0], report.Last.Failures[1]
		require.Equal(t, []string{"a", "damaged", reseal.UnreadKey}, []string{first.Partition, first.TransactionID, first.Key})
		require.ErrorContains(t, first.Reason, "XX001")
		require.Equal(t, []string{"b", "lost0", "lost"}, []string{second.Partition, second.TransactionID, second.Key})
		require.ErrorContains(t, second.Reason, `no key "lost"`)
		require.Equal(t, f.text(`SELECT id::text FROM belfry.message WHERE transaction_id = 'lost0'`), second.ID.String())
		require.Equal(t, 11, report.Last.Messages["lost"])
		require.Equal(t, 1, report.Last.Messages[reseal.UnreadKey])
		if !check {
			require.Equal(t, 39, report.Resealed)
			require.Equal(t, map[string]int{"new": 39, "old": 1, "lost": 11, reseal.UnreadKey: 1}, report.Last.Messages)
		}
	}
}

// With large messages, a page has fewer messages.
func TestPagesAreBoundedInBytes(t *testing.T) {
	f := newFixture(t)
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	var items []queue.PushItem
	for i := range 6 {
		items = append(items, queue.PushItem{
			Queue: "q", Partition: "p", TransactionID: fmt.Sprint(i), Payload: []byte(`"` + hex.EncodeToString(noise) + `"`),
		})
	}
	_, err := f.store(seal.Config{Keys: setting.Secret(oldKey)}).Push(t.Context(), items)
	require.NoError(t, err)
	var pages []int
	f.done(all, reseal.Options{Progress: func(p reseal.Progress) { pages = append(pages, p.Read) }})
	require.Equal(t, []int{1, 2, 3, 4, 5, 6}, pages[:6])
}

// A run skips a message that a deletion has locked. If the deletion fails, a later run reseals the
// message.
func TestALockedMessageIsLeftOut(t *testing.T) {
	f := newFixture(t)
	f.push(seal.Config{Keys: setting.Secret(oldKey)}, "p", "a", "b", "c")
	f.exec(`BEGIN`)
	f.exec(`DELETE FROM belfry.message WHERE transaction_id = 'b'`)
	report := f.done(all, reseal.Options{})
	require.Equal(t, 2, report.Resealed)
	require.Equal(t, 1, report.Last.Locked)
	require.Equal(t, map[string]int{"new": 2, "old": 1}, report.Last.Messages)
	f.exec(`ROLLBACK`)
	report = f.done(all, reseal.Options{})
	require.Equal(t, 1, report.Resealed)
	require.Equal(t, map[string]int{"new": 3}, report.Last.Messages)
}

func TestARunNeedsAKeyAndAQueue(t *testing.T) {
	f := newFixture(t)
	_, err := reseal.Open(t.Context(), f.dsn, nil)
	require.ErrorIs(t, err, seal.ErrNoKeyToSeal)
	f.exec(`UPDATE belfry.queue SET name = 'other'`)
	_, err = f.run(t.Context(), all, reseal.Options{})
	require.ErrorIs(t, err, reseal.ErrNoQueue)
	_, err = reseal.Open(t.Context(), "postgres://u:s3cret@127.0.0.1:1/d?sslmode=disable", sealer(t, all))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
}

// Producers with each of the two keys and consumers work while runs repeat. Each message is delivered
// once, in order and with its payload.
func TestARunDoesNotDisturbProducersAndConsumers(t *testing.T) {
	f := newFixture(t)
	const partitions, each = 4, 60
	producers := []seal.Config{all, {Keys: setting.Secret(oldKey + "," + newKey), Key: setting.Secret(single)}}
	pushed, consumed := make(chan error, 1), make(chan error, 1)
	got := map[string][]string{}
	stores := []interface {
		Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error)
	}{f.store(producers[0]), f.store(producers[1])}
	consumer := f.store(all)
	go func() {
		for i := range each {
			for p := range partitions {
				id := fmt.Sprintf("%d-%d", p, i)
				_, err := stores[i%2].Push(t.Context(), []queue.PushItem{{Queue: "q", Partition: fmt.Sprint(p), TransactionID: id, Payload: payloadOf(id)}})
				if err != nil {
					pushed <- err
					return
				}
			}
		}
		pushed <- nil
	}()
	go func() { consumed <- consume(t.Context(), consumer, got, partitions*each) }()
	for finished := false; !finished; {
		f.done(all, reseal.Options{})
		select {
		case err := <-consumed:
			require.NoError(t, err)
			finished = true
		default:
		}
	}
	require.NoError(t, <-pushed)
	for p := range partitions {
		require.Equal(t, numbered(fmt.Sprint(p, "-"), each), got[fmt.Sprint(p)])
	}
	require.Equal(t, map[string]int{"new": partitions * each}, f.done(all, reseal.Options{}).Last.Messages)
}

// consumerStore has the methods of a store that consume calls.
type consumerStore interface {
	Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error)
	Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error)
}

// consume pops and acknowledges n messages.
func consume(ctx context.Context, s consumerStore, got map[string][]string, n int) error {
	for n > 0 {
		d, err := s.Pop(ctx, &queue.PopRequest{Queue: "q", Group: "g", Batch: 7, Partitions: 2})
		if err != nil {
			return err
		}
		var acks []queue.AckItem
		for _, m := range d.Messages {
			if string(m.Payload) != string(payloadOf(m.TransactionID)) {
				return fmt.Errorf("message %s has the payload %s", m.TransactionID, m.Payload)
			}
			got[m.Partition.Name] = append(got[m.Partition.Name], m.TransactionID)
			acks = append(acks, queue.AckItem{
				TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: "g", Status: queue.AckCompleted, LeaseID: d.LeaseID.String(),
			})
		}
		if len(acks) == 0 {
			continue
		}
		results, err := s.Ack(ctx, acks)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(results, func(r queue.AckResult) bool { return !r.Success }) {
			return fmt.Errorf("an ack was refused: %+v", results)
		}
		n -= len(acks)
	}
	return nil
}

package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// replaceDatabase empties the tables and restarts the ids, like the restore of another database.
// The queue "strangers" gets the first ids. It has a message that has been due for the group
// "theirs" for one minute.
func (b *bench) replaceDatabase() {
	b.t.Helper()
	b.exec(`TRUNCATE belfry.message, belfry.queue, belfry.cursor RESTART IDENTITY CASCADE`)
	stranger := newStore(b.t, b.pool, prometheus.NewRegistry(), nil)
	_, err := stranger.Push(b.t.Context(), []queue.PushItem{{Queue: "strangers", Partition: "theirs", TransactionID: "theirs", Payload: []byte(`{}`)}})
	require.NoError(b.t, err)
	_, _, ok, err := stranger.Resolve(b.t.Context(), strangersRequest())
	require.NoError(b.t, err)
	require.True(b.t, ok)
	b.exec(`UPDATE belfry.cursor SET ready_at = ready_at - interval '1 minute'`)
}

// strangersRequest is a pop from queue "strangers".
func strangersRequest() *queue.PopRequest {
	return &queue.PopRequest{Queue: "strangers", Group: "theirs", Batch: 1, Partitions: 1}
}

// contents returns the messages of a queue as partition/transaction id.
func (b *bench) contents(queueName string) (all []string) {
	b.t.Helper()
	b.scan(`SELECT array_agg(p.name || '/' || m.transaction_id ORDER BY p.name, m.seq)
	          FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id
	         WHERE q.name = $1`, []any{queueName}, &all)
	return all
}

func TestAPushAfterAnEpochChangeReachesItsOwnQueue(t *testing.T) {
	t.Parallel()
	for name, push := range map[string]func(b *bench){
		"push": func(b *bench) { b.push("p", "2") },
		"with a new partition": func(b *bench) {
			_, err := b.Push(t.Context(), []queue.PushItem{item("p", "2"), item("r", "3")})
			require.NoError(t, err)
		},
		"transaction": func(b *bench) {
			pushed := item("p", "2")
			result, err := b.Transact(t.Context(), &queue.Transaction{Operations: []queue.Operation{{Push: &pushed}}})
			require.NoError(t, err)
			require.True(t, result.Applied, result.Error)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.push("p", "1")
			b.replaceDatabase()
			push(b)
			require.Contains(t, b.contents("q"), "p/2")
			require.Equal(t, []string{"theirs/theirs"}, b.contents("strangers"))
		})
	}
}

// A transaction replaces the contents of the tables and locks them until its commit. A push that
// waits for that lock reads the new epoch.
func TestAPushThatWaitsForAnEpochChangeReadsTheNewEpoch(t *testing.T) {
	b := newBench(t)
	b.push("p", "1")
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	enginetest.Exec(t, tx, `TRUNCATE belfry.message, belfry.queue, belfry.cursor RESTART IDENTITY CASCADE`)
	enginetest.Exec(t, tx, `SELECT 1 FROM belfry.open_partitions('{strangers}', '{theirs}', 60, 3)`)
	pushed := b.beginPush(item("p", "2"))
	awaitLockWait(t, b)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, (<-pushed).err)
	require.Equal(t, []string{"p/2"}, b.contents("q"))
	require.Empty(t, b.contents("strangers"))
}

// An epoch change makes the cached partitions of a whole flush invalid at once. The store sends all
// pushes again together and does not split the flush.
func TestAnEpochChangeDoesNotSplitAFlush(t *testing.T) {
	const calls = 50
	b := oneByOne(t)
	b.push("p", "1")
	b.replaceDatabase()
	release := b.takeAllConnections()
	var outs []<-chan pushed
	for i := range calls {
		outs = append(outs, b.beginPush(item("p", fmt.Sprintf("m%d", i))))
	}
	b.awaitQueued("push", calls-1)
	release()
	for _, out := range outs {
		require.NoError(t, (<-out).err)
	}
	require.Len(t, b.contents("q"), calls)
	families, err := b.reg.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "belfry_batch_splits_total" {
				require.Zero(t, m.GetCounter().GetValue(), "%s", m)
			}
		}
	}
}

func TestAPopAfterAnEpochChangeFindsItsOwnQueue(t *testing.T) {
	b := newBench(t)
	req := request("g", 1)
	b.register("g")
	before := b.resolve(req)
	b.replaceDatabase()

	findings, err := b.Preflight(t.Context(), []queue.Probe{{Target: before, Want: 1}}, 30*time.Second)
	require.NoError(t, err)
	require.True(t, findings[0].Gone, "the id belongs to another group now")
	delivery := b.claim(req, before)
	require.True(t, delivery.Gone)
	require.Empty(t, delivery.Messages)
	require.Empty(t, b.pop(req).Messages, "the queue does not exist")

	b.push("p", "2")
	delivery = b.claim(req, before)
	require.True(t, delivery.Gone)
	require.Len(t, b.pop(strangersRequest()).Messages, 1, "a claim with an old epoch moves no scan floor")
	found := b.pop(req)
	require.Equal(t, []string{"2"}, transactionIDs(found))
	require.Equal(t, "p", found.Messages[0].Partition.Name)
	require.NotEqual(t, before.Epoch, found.Target.Epoch)
}

// After an epoch change, another partition has the database id of the acknowledged partition, and a
// message with the same transaction id. The ack does not change this partition, even if the ack has
// no lease.
func TestAnAckAfterAnEpochChangeTouchesNoOtherPartition(t *testing.T) {
	t.Parallel()
	transact := func(b *bench, toAck queue.AckItem, leases ...string) string {
		result, err := b.Transact(t.Context(), &queue.Transaction{Operations: []queue.Operation{{Ack: &toAck}}, RequiredLeases: leases})
		require.NoError(t, err)
		return result.Operations[0].Error
	}
	for name, ack := range map[string]func(b *bench, toAck queue.AckItem, otherLease string) string{
		"ack": func(b *bench, toAck queue.AckItem, _ string) string {
			results, err := b.Ack(t.Context(), []queue.AckItem{toAck})
			require.NoError(t, err)
			return results[0].Error
		},
		"transaction":                     func(b *bench, toAck queue.AckItem, _ string) string { return transact(b, toAck) },
		"transaction under another lease": func(b *bench, toAck queue.AckItem, otherLease string) string { return transact(b, toAck, otherLease) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.push("p", "theirs")
			popped := b.pop(request("theirs", 1))
			b.replaceDatabase()
			stranger := newStore(t, b.pool, prometheus.NewRegistry(), nil)
			held, err := stranger.Pop(t.Context(), strangersRequest())
			require.NoError(t, err)
			require.Len(t, held.Messages, 1)

			toAck := acks(popped, queue.AckCompleted, popped.Messages...)[0]
			toAck.LeaseID = ""
			require.NotEmpty(t, ack(b, toAck, held.LeaseID.String()))
			results, err := stranger.Ack(t.Context(), acks(held, queue.AckCompleted, held.Messages...))
			require.NoError(t, err)
			require.Empty(t, results[0].Error, "the earlier ack did not acknowledge this message")
			require.True(t, results[0].Success)
		})
	}
}

// A look-up in the previous epoch may end after a look-up in the current epoch. The cache ignores
// the result of the earlier epoch.
func TestACachedPartitionOfAnOldEpochIsIgnored(t *testing.T) {
	b := newBench(t)
	old := b.OpenedAs(t.Context(), item("p", ""))
	b.replaceDatabase()
	req := strangersRequest()
	target := b.resolve(req)
	b.Learn(old)
	delivery := b.claim(req, target)
	require.Equal(t, "theirs", delivery.Messages[0].Partition.Name)
}

// An epoch change sends one resync event and empties the cache of names. The first lookup of a store
// is not an epoch change.
func TestAnEpochChangeCausesOneResync(t *testing.T) {
	b := newBench(t)
	heard := &receiver{}
	b.Observe(heard)
	b.register("g")
	b.push("p", "1")
	require.Zero(t, heard.resyncs.Load())
	before := b.resolve(request("g", 1))
	b.replaceDatabase()
	b.push("p", "2")
	require.EqualValues(t, 1, heard.resyncs.Load())
	after := b.resolve(request("g", 1))
	require.NotEqual(t, before.Epoch, after.Epoch)
	require.EqualValues(t, 1, heard.resyncs.Load())
}

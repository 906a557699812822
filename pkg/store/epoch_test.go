package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// reborn empties the tables, lets the ids begin again, and gives the first ones to a
// queue of strangers, with a message that has been due for their group for a minute.
func (b *bench) reborn() {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `TRUNCATE belfry.message, belfry.queue, belfry.cursor RESTART IDENTITY CASCADE`)
	require.NoError(b.t, err)
	stranger := newStore(b.t, b.pool, prometheus.NewRegistry(), nil)
	_, err = stranger.Push(b.t.Context(), []queue.PushItem{{Queue: "strangers", Partition: "theirs", TransactionID: "theirs", Payload: []byte(`{}`)}})
	require.NoError(b.t, err)
	_, ok, err := stranger.Resolve(b.t.Context(), theirs())
	require.NoError(b.t, err)
	require.True(b.t, ok)
	_, err = b.pool.Exec(b.t.Context(), `UPDATE belfry.cursor SET ready_at = ready_at - interval '1 minute'`)
	require.NoError(b.t, err)
}

func theirs() *queue.PopRequest {
	return &queue.PopRequest{Queue: "strangers", Group: "theirs", Batch: 1, Partitions: 1}
}

// contents is what a queue holds, as partition/transaction id.
func (b *bench) contents(queueName string) (all []string) {
	b.t.Helper()
	b.scan(`SELECT array_agg(p.name || '/' || m.transaction_id ORDER BY p.name, m.seq)
	          FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id
	         WHERE q.name = $1`, []any{queueName}, &all)
	return all
}

func TestPushInAnotherLife(t *testing.T) {
	t.Parallel()
	for name, push := range map[string]func(b *bench){
		"push": func(b *bench) { b.push("p", "2") },
		"with a new partition": func(b *bench) {
			_, err := b.Push(t.Context(), []queue.PushItem{item("p", "2"), item("r", "3")})
			require.NoError(t, err)
		},
		"transaction": func(b *bench) {
			one := item("p", "2")
			result, err := b.Transact(t.Context(), &queue.Transaction{Operations: []queue.Operation{{Push: &one}}})
			require.NoError(t, err)
			require.True(t, result.Applied, result.Error)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.push("p", "1")
			b.reborn()
			push(b)
			require.Contains(t, b.contents("q"), "p/2")
			require.Equal(t, []string{"theirs/theirs"}, b.contents("strangers"))
		})
	}
}

// What puts another state in the place of the tables locks them until it is there. A push
// that waits for it meanwhile looks at the life it finds then.
func TestPushThatWaitsForAnotherLife(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.push("p", "1")
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `TRUNCATE belfry.message, belfry.queue, belfry.cursor RESTART IDENTITY CASCADE`)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM belfry.open_partitions('{strangers}', '{theirs}', 60, 3)`)
	require.NoError(t, err)
	pushed := make(chan error, 1)
	go func() {
		_, err := b.Push(t.Context(), []queue.PushItem{item("p", "2")})
		pushed <- err
	}()
	awaitLockWait(t, b)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-pushed)
	require.Equal(t, []string{"p/2"}, b.contents("q"))
	require.Empty(t, b.contents("strangers"))
}

// All lanes are gone at once: each push is told, and none is tried alone for that.
func TestPushesInAnotherLifeAreNotTakenApart(t *testing.T) {
	t.Parallel()
	const calls = 50
	b := oneByOne(t)
	b.push("p", "1")
	b.reborn()
	release := b.occupy()
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

func TestPopInAnotherLife(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	req := request("g", 1)
	b.register("g")
	before, _, err := b.Resolve(t.Context(), req)
	require.NoError(t, err)
	b.reborn()

	findings, err := b.Preflight(t.Context(), []queue.Probe{{Target: before, Want: 1}}, 30*time.Second)
	require.NoError(t, err)
	require.True(t, findings[0].Gone, "its id is a stranger's")
	deliveries, err := b.Claim(t.Context(), []queue.Assignment{{Request: req, Target: before}})
	require.NoError(t, err)
	require.True(t, deliveries[0].Gone)
	require.Empty(t, deliveries[0].Messages)
	require.Empty(t, b.pop(req).Messages, "the queue is not there")

	b.push("p", "2")
	deliveries, err = b.Claim(t.Context(), []queue.Assignment{{Request: req, Target: before}})
	require.NoError(t, err)
	require.True(t, deliveries[0].Gone)
	require.Len(t, b.pop(theirs()).Messages, 1, "a look for what is gone has not hidden it")
	found := b.pop(req)
	require.Equal(t, []string{"2"}, transactionIDs(found))
	require.Equal(t, "p", found.Messages[0].Partition.Name)
	require.NotEqual(t, before.Epoch, found.Target.Epoch)
}

// An ack is for a partition that is not there any more; what has its id, and a message
// of the same name, is not touched, also by an ack without a lease.
func TestAckInAnotherLife(t *testing.T) {
	t.Parallel()
	transact := func(b *bench, one queue.AckItem, leases ...string) string {
		result, err := b.Transact(t.Context(), &queue.Transaction{Operations: []queue.Operation{{Ack: &one}}, RequiredLeases: leases})
		require.NoError(t, err)
		return result.Operations[0].Error
	}
	for name, ack := range map[string]func(b *bench, one queue.AckItem, theirs string) string{
		"ack": func(b *bench, one queue.AckItem, _ string) string {
			results, err := b.Ack(t.Context(), []queue.AckItem{one})
			require.NoError(t, err)
			return results[0].Error
		},
		"transaction":                   func(b *bench, one queue.AckItem, _ string) string { return transact(b, one) },
		"transaction under their lease": func(b *bench, one queue.AckItem, theirs string) string { return transact(b, one, theirs) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.push("p", "theirs")
			popped := b.pop(request("theirs", 1))
			b.reborn()
			stranger := newStore(t, b.pool, prometheus.NewRegistry(), nil)
			held, err := stranger.Pop(t.Context(), theirs())
			require.NoError(t, err)
			require.Len(t, held.Messages, 1)

			one := acks(popped, queue.AckCompleted, popped.Messages...)[0]
			one.LeaseID = ""
			require.NotEmpty(t, ack(b, one, held.LeaseID.String()))
			results, err := stranger.Ack(t.Context(), acks(held, queue.AckCompleted, held.Messages...))
			require.NoError(t, err)
			require.Empty(t, results[0].Error, "nobody else has acknowledged it")
			require.True(t, results[0].Success)
		})
	}
}

// What was looked up in a life that has ended may be learnt after what belongs to the
// next one.
func TestAnOldNameIsNotGivenToWhatIsNew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.OpenedAs(t.Context(), item("p", ""))
	b.reborn()
	req := theirs()
	target, _, err := b.Resolve(t.Context(), req)
	require.NoError(t, err)
	b.Learn(old)
	deliveries, err := b.Claim(t.Context(), []queue.Assignment{{Request: req, Target: target}})
	require.NoError(t, err)
	require.Equal(t, "theirs", deliveries[0].Messages[0].Partition.Name)
}

// Who waits for what is remembered by an id looks again, and nothing of another life is
// remembered. The first look-up begins no other life.
func TestAnotherLifeIsADoubt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	heard := &receiver{}
	b.Observe(heard)
	b.register("g")
	b.push("p", "1")
	require.Zero(t, heard.doubts.Load())
	before, _, err := b.Resolve(t.Context(), request("g", 1))
	require.NoError(t, err)
	b.reborn()
	b.push("p", "2")
	require.EqualValues(t, 1, heard.doubts.Load())
	after, _, err := b.Resolve(t.Context(), request("g", 1))
	require.NoError(t, err)
	require.NotEqual(t, before.Epoch, after.Epoch)
	require.EqualValues(t, 1, heard.doubts.Load())
}

package check_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

const (
	liveQueue = "q"
	// liveLease is short, so that leases expire while clients hold them.
	liveLease = time.Second
	liveTurns = 150
)

// live is a real store with clients and a recorder of their operations.
type live struct {
	store    *store.Store
	recorder *history.Recorder
}

// TestTheStoreKeepsItsPromises runs producers and consumers on the real store and checks their history. The test
// shows that the rules of the checker match the engine, and that the rules report each mutation of such a history.
func TestTheStoreKeepsItsPromises(t *testing.T) {
	t.Parallel()
	pool := enginetest.Pool(t, pgtest.Database(t))
	settings := store.Config{Defaults: queue.DefaultDefaults(), Batch: batch.DefaultConfig()}
	l := &live{
		store:    store.New(pool, settings, store.NewMetrics(prometheus.NewRegistry()), zap.NewNop()),
		recorder: history.NewRecorder(),
	}
	t.Cleanup(func() { require.NoError(t, l.store.Close(context.Background())) })
	tables, err := pgxpool.New(t.Context(), pool.Config().ConnString())
	require.NoError(t, err)
	t.Cleanup(tables.Close)
	_, err = tables.Exec(t.Context(), "INSERT INTO belfry.queue (name, lease_time, retry_limit, retry_delay) VALUES ($1, $2, 1, 0)",
		liveQueue, int64(liveLease/time.Second))
	require.NoError(t, err)

	require.NoError(t, check.Watch(t.Context(), tables))

	groups := []string{"g1", "g2"}
	require.NoError(t, l.deadLetterInTheMiddle(t.Context(), groups[0]))
	failures := make(chan error, 16)
	var clients sync.WaitGroup
	for n := range 3 {
		clients.Go(func() { failures <- l.produce(t.Context(), rand.New(rand.NewPCG(1, uint64(n)))) })
		for _, group := range groups {
			clients.Go(func() { failures <- l.consume(t.Context(), group, rand.New(rand.NewPCG(2, uint64(n)))) })
		}
	}
	var state check.State
	for range 20 {
		samples, err := check.ReadSamples(t.Context(), tables, []string{liveQueue}, l.recorder.Now)
		require.NoError(t, err)
		state.Samples = append(state.Samples, samples...)
	}
	clients.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	for _, group := range groups {
		require.NoError(t, l.drain(t.Context(), tables, group))
	}
	final, err := check.ReadState(t.Context(), tables, []string{liveQueue})
	require.NoError(t, err)
	final.Samples = state.Samples
	require.NoError(t, check.ReadDeletions(t.Context(), tables, []string{liveQueue}, &final))
	final.LeasePeriods, final.Moves, err = check.ReadLeasePeriods(t.Context(), tables, []string{liveQueue}, l.recorder.Began())
	require.NoError(t, err)
	require.NotEmpty(t, final.LeasePeriods)
	require.Len(t, final.Partitions, 3)
	dead := 0
	for _, p := range final.Partitions {
		for _, c := range p.Cursors {
			dead += len(c.Dead)
		}
	}
	require.Positive(t, dead, "the clients must make dead letters")
	r := &run{operations: l.recorder.Operations(), state: final}
	require.Empty(t, r.judge())
	// The rules must also hold with only the history, the partitions and the samples.
	r.state = check.State{Partitions: final.Partitions, Samples: final.Samples}
	require.Empty(t, r.judge())
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			caught := 0
			for seed := range uint64(20) {
				random, mutant := rand.New(rand.NewPCG(seed, 1)), r.clone()
				if m.apply(mutant, random.IntN) {
					noticed(t, mutant, m.rule)
					caught++
				}
			}
			require.Positive(t, caught, "no seed offered an opportunity for the mutation")
		})
	}
}

// deadLetterInTheMiddle leaves a dead letter between two messages that are delivered again. Random clients rarely do
// this.
func (l *live) deadLetterInTheMiddle(ctx context.Context, group string) error {
	o := history.Operation{Kind: history.Push, Queue: liveQueue, Outcome: history.Done}
	var pushed []queue.PushItem
	for _, id := range []string{"first", "second", "third"} {
		o.Items = append(o.Items, history.Item{Partition: "p0", TransactionID: id})
		pushed = append(pushed, queue.PushItem{Queue: liveQueue, Partition: "p0", TransactionID: id, Payload: []byte("1")})
	}
	o = l.recorder.Begin(o)
	if _, err := l.store.Push(ctx, pushed); err != nil {
		return err
	}
	l.recorder.End(o)
	type reported struct {
		index  int
		status string
	}
	for _, acks := range [][]reported{{{0, "failed"}}, {{1, "failed"}, {0, "retry"}}, nil} {
		h, err := l.pop(ctx, group, 3, false)
		if err != nil {
			return err
		}
		for _, a := range acks {
			if err := l.ack(ctx, h, []int{a.index}, a.status, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// produce pushes to three partitions. It pushes some messages twice.
func (l *live) produce(ctx context.Context, random *rand.Rand) error {
	for range liveTurns {
		o := history.Operation{Kind: history.Push, Queue: liveQueue}
		var items []queue.PushItem
		for range 1 + random.IntN(3) {
			item := history.Item{Partition: fmt.Sprintf("p%d", random.IntN(3)), TransactionID: fmt.Sprintf("t%d", random.IntN(3000))}
			o.Items = append(o.Items, item)
			items = append(items, queue.PushItem{
				Queue: liveQueue, Partition: item.Partition, TransactionID: item.TransactionID, Payload: []byte("1"),
			})
		}
		o = l.recorder.Begin(o)
		results, err := l.store.Push(ctx, items)
		if err != nil {
			return err
		}
		for i, result := range results {
			o.Items[i].MessageID, o.Items[i].Duplicate = result.MessageID.String(), result.Duplicate
		}
		o.Outcome = history.Done
		l.recorder.End(o)
	}
	return nil
}

// held is a delivery with the pop that received it.
type held struct {
	op       history.Operation
	delivery queue.Delivery
}

// pop pops once and records the operation.
func (l *live) pop(ctx context.Context, group string, batch int, auto bool) (held, error) {
	o := l.recorder.Begin(history.Operation{Kind: history.Pop, Queue: liveQueue, Group: group, AutoAck: auto})
	delivery, err := l.store.Pop(ctx, &queue.PopRequest{Queue: liveQueue, Group: group, Batch: batch, Partitions: 2, AutoAck: auto})
	if err != nil {
		return held{o, delivery}, err
	}
	for _, m := range delivery.Messages {
		o.Items = append(o.Items, history.Item{Partition: m.Partition.Name, TransactionID: m.TransactionID, MessageID: m.ID.String()})
	}
	if len(delivery.Messages) > 0 && !auto {
		o.LeaseID = delivery.LeaseID.String()
	}
	o.Outcome = history.Done
	return held{l.recorder.End(o), delivery}, nil
}

// ack acknowledges messages of a delivery by their indexes. If all, each message gets status. Otherwise only the last
// message gets status, and the other messages are completed.
func (l *live) ack(ctx context.Context, h held, indexes []int, status string, all bool) error {
	o := history.Operation{Kind: history.Ack, Queue: liveQueue, Group: h.op.Group, LeaseID: h.op.LeaseID}
	var items []queue.AckItem
	for i, index := range indexes {
		m := h.delivery.Messages[index]
		item := history.Item{Partition: m.Partition.Name, TransactionID: m.TransactionID, Status: "completed"}
		if all || i == len(indexes)-1 {
			item.Status = status
		}
		o.Items = append(o.Items, item)
		items = append(items, queue.AckItem{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: h.op.Group, LeaseID: h.op.LeaseID,
			Status: queue.ParseAckStatus(item.Status),
		})
	}
	o = l.recorder.Begin(o)
	results, err := l.store.Ack(ctx, items)
	if err != nil {
		return err
	}
	for i, result := range results {
		o.Items[i].Accepted, o.Items[i].DeadLettered = result.Success, result.DeadLettered
	}
	o.Outcome = history.Done
	l.recorder.End(o)
	return nil
}

// consume pops with random parameters. It acknowledges its deliveries, some of them late or only in part.
func (l *live) consume(ctx context.Context, group string, random *rand.Rand) error {
	var all []held
	for range liveTurns {
		h, err := l.pop(ctx, group, 1+random.IntN(5), random.IntN(5) == 0)
		if err != nil {
			return err
		}
		if h.op.LeaseID != "" {
			all = append(all, h)
		}
		if len(all) == 0 || random.IntN(10) == 0 {
			continue
		}
		one := all[max(0, len(all)-1-random.IntN(3))] // sometimes an acknowledged or stale delivery
		status := []string{"completed", "completed", "failed", "failed", "retry"}[random.IntN(5)]
		indexes := upto(len(one.delivery.Messages))
		switch random.IntN(4) {
		case 0:
			indexes = indexes[:1+random.IntN(len(indexes))]
		case 1:
			indexes = indexes[random.IntN(len(indexes)):]
		}
		if status == "completed" {
			indexes = upto(indexes[len(indexes)-1] + 1) // leave no gap
		}
		if err := l.ack(ctx, one, indexes, status, random.IntN(2) == 0); err != nil {
			return err
		}
	}
	return nil
}

// drain consumes the remaining messages. It first expires the leases of the clients.
func (l *live) drain(ctx context.Context, tables *pgxpool.Pool, group string) error {
	if _, err := tables.Exec(ctx, "UPDATE belfry.cursor SET lease_until = now(), ready_at = now() WHERE lease_id IS NOT NULL"); err != nil {
		return err
	}
	for {
		h, err := l.pop(ctx, group, 100, false)
		if err != nil || len(h.delivery.Messages) == 0 {
			return err
		}
		if err := l.ack(ctx, h, upto(len(h.delivery.Messages)), "completed", true); err != nil {
			return err
		}
	}
}

// upto returns the numbers from 0 to n-1.
func upto(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

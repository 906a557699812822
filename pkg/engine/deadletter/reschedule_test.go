package deadletter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// appointments pushes, moves and consumes messages at once.
type appointments struct {
	*fixture
	store   *store.Store
	letters *deadletter.Letters

	mu sync.Mutex
	// pushed are the messages that may be moved: pairs of a partition and a transaction id.
	pushed []appointment
	// seen counts the deliveries of each message to each group.
	seen  map[string]int
	moved atomic.Int64
}

type appointment struct {
	partition   queue.ID
	transaction string
}

func newAppointments(t *testing.T) *appointments {
	a := &appointments{fixture: newFixture(t), seen: map[string]int{}}
	a.store = enginetest.Store(t, a.pool)
	bus := &events.Bus{}
	bus.Subscribe(a.store)
	a.letters = deadletter.New(a.pool, nil, bus, zap.NewNop())
	return a
}

// push pushes messages with random delays to random partitions.
func (a *appointments) push(worker, n int) error {
	items := make([]queue.PushItem, 3)
	for i := range items {
		items[i] = queue.PushItem{
			Queue: "q", Partition: fmt.Sprint("p", rand.IntN(4)), TransactionID: fmt.Sprint(worker, "-", n, "-", i), Payload: []byte(`1`),
			Delay: time.Duration(rand.IntN(300)) * time.Millisecond,
		}
	}
	results, err := a.store.Push(a.t.Context(), items)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range results {
		a.pushed = append(a.pushed, appointment{results[i].PartitionID, items[i].TransactionID})
	}
	return err
}

// move moves a random message to a random instant, or to now. Most messages are leased or consumed, and are not moved.
func (a *appointments) move() error {
	a.mu.Lock()
	if len(a.pushed) == 0 {
		a.mu.Unlock()
		return nil
	}
	m := a.pushed[len(a.pushed)-1-rand.IntN(min(len(a.pushed), 40))]
	a.mu.Unlock()
	to := deadletter.Instant{Delay: time.Duration(rand.IntN(300)) * time.Millisecond}
	if rand.IntN(2) == 0 {
		to = deadletter.Instant{At: time.Now().Add(time.Duration(rand.IntN(500)-200) * time.Millisecond)}
	}
	_, err := a.letters.Reschedule(a.t.Context(), m.partition, m.transaction, to)
	if queue.CodeOf(err) == queue.CodeConflict {
		return nil
	}
	a.moved.Add(1)
	return err
}

// consume pops and acknowledges messages of a group. Nobody can move a message during its lease. So the instant that consume reads
// is still the instant of the delivery.
func (a *appointments) consume(group string) error {
	d, err := a.store.Pop(a.t.Context(), &queue.PopRequest{Queue: "q", Group: group, Batch: 4, Partitions: 2})
	if err != nil {
		return err
	}
	now := time.Now()
	items := make([]queue.AckItem, len(d.Messages))
	for i, m := range d.Messages {
		var early bool
		err := a.pool.QueryRow(a.t.Context(), `SELECT coalesce(m.visible_at > $2, false) FROM belfry.message m WHERE m.id = $1`, [16]byte(m.ID), now).Scan(&early)
		if err != nil {
			return err
		}
		if early {
			return fmt.Errorf("message %s was delivered before its instant", m.TransactionID)
		}
		items[i] = queue.AckItem{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: group, LeaseID: d.LeaseID.String(), Status: queue.AckCompleted,
		}
	}
	results, err := a.store.Ack(a.t.Context(), items)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, result := range results {
		if !result.Success {
			return fmt.Errorf("an ack under a live lease was refused: %s", result.Error)
		}
		a.seen[group+" "+items[i].TransactionID]++
	}
	return err
}

// Moves race with pushes, pops, acks and new groups. No message is lost, none is delivered twice or before its instant, every cursor
// is ready when its first message is, and no deadlock occurs.
func TestMovesRaceWithPushesPopsAndAcks(t *testing.T) {
	a := newAppointments(t)
	require.NoError(t, a.push(9, 0))
	groups := []string{"g0", "g1"}
	var work errgroup.Group
	end := time.Now().Add(4 * time.Second)
	repeat := func(do func(n int) error) {
		work.Go(func() error {
			for n := 0; time.Now().Before(end); n++ {
				if err := do(n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for worker, group := range groups {
		repeat(func(n int) error { return a.push(worker, n) })
		repeat(func(int) error { return a.consume(group) })
		repeat(func(int) error { return a.move() })
	}
	repeat(func(n int) error {
		_, err := a.store.Pop(t.Context(), &queue.PopRequest{Queue: "q", Group: fmt.Sprint("late ", n%20), Batch: 1, Partitions: 1})
		return err
	})
	require.NoError(t, work.Wait())
	require.Positive(t, a.moved.Load())
	enginetest.Await(t, "the groups have consumed every message", func() bool {
		for _, group := range groups {
			require.NoError(t, a.consume(group))
		}
		return len(a.seen) == len(groups)*len(a.pushed)
	})
	for message, n := range a.seen {
		require.Equal(t, 1, n, message)
	}
	require.Zero(t, enginetest.Value[int64](t, a.pool, `SELECT count(*) FROM belfry.cursor c
		 WHERE c.lease_id IS NULL AND (SELECT greatest(m.visible_at, now()) FROM belfry.message m
		       WHERE m.partition_id = c.partition_id AND m.seq > c.committed ORDER BY m.seq LIMIT 1) < coalesce(c.ready_at, 'infinity')`),
		"a cursor is ready later than its first message")
	require.Zero(t, enginetest.Value[int64](t, a.pool, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
}

// A group that joins while a message is moved sees the new instant, although its transaction began before the move.
func TestAJoiningGroupSeesAMove(t *testing.T) {
	a := newAppointments(t)
	results, err := a.store.Push(t.Context(), []queue.PushItem{{Queue: "q", Partition: "p", TransactionID: "t", Payload: []byte(`1`), Delay: time.Hour}})
	require.NoError(t, err)
	join, err := a.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = join.Rollback(context.WithoutCancel(t.Context())) }() // the test commits, unless it has failed
	enginetest.Exec(t, join, `SELECT belfry.join_group('q', 'g', 'p', 'all', NULL)`)
	var move errgroup.Group
	move.Go(func() error {
		_, err := a.letters.Reschedule(t.Context(), results[0].PartitionID, "t", deadletter.Instant{})
		return err
	})
	enginetest.Await(t, "the move waits for the group", func() bool {
		return enginetest.Value[bool](t, a.pool, `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	})
	require.NoError(t, join.Commit(t.Context()))
	require.NoError(t, move.Wait())
	require.True(t, enginetest.Value[bool](t, a.pool, `SELECT c.ready_at <= clock_timestamp() FROM belfry.cursor c`))
}

// While a SQL consumer holds a cursor, a move waits, and holds no lock that pushes need.
func TestAMoveThatWaitsBlocksNoPush(t *testing.T) {
	a := newAppointments(t)
	results, err := a.store.Push(t.Context(), []queue.PushItem{{Queue: "q", Partition: "p", TransactionID: "t", Payload: []byte(`1`), Delay: time.Hour}})
	require.NoError(t, err)
	enginetest.Exec(t, a.pool, `SELECT belfry.join_group('q', 'g', 'p', 'all', NULL)`)
	consumer, err := a.pool.Begin(t.Context())
	require.NoError(t, err)
	enginetest.Exec(t, consumer, `SELECT 1 FROM belfry.cursor FOR NO KEY UPDATE`)
	done := make(chan error, 1)
	go func() {
		_, err := a.letters.Reschedule(t.Context(), results[0].PartitionID, "t", deadletter.Instant{Delay: time.Minute})
		done <- err
	}()
	enginetest.Await(t, "the move waits for the cursor", func() bool {
		return enginetest.Value[bool](t, a.pool, `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	})
	for n := range 20 {
		_, err := a.store.Push(t.Context(), []queue.PushItem{{Queue: "q", Partition: "p", TransactionID: strconv.Itoa(n), Payload: []byte(`1`)}})
		require.NoError(t, err)
	}
	require.NoError(t, consumer.Rollback(t.Context()))
	require.NoError(t, <-done)
}

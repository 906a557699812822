package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// tryPush pushes messages without ids to a partition of queue "q".
func tryPush(ctx context.Context, s pusher, partition string, n int) error {
	items := make([]queue.PushItem, n)
	for i := range items {
		items[i] = item(partition, "")
	}
	_, err := s.Push(ctx, items)
	return err
}

type pusher interface {
	Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error)
}

// requireFull requires a CodeQueueFull error with exactly this text.
func requireFull(t *testing.T, err error, text string) {
	t.Helper()
	var coded *queue.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, queue.CodeQueueFull, coded.Code)
	require.Equal(t, time.Second, coded.RetryAfter)
	require.Equal(t, text, coded.Message)
}

// stored returns the number of stored messages.
func (b *bench) stored() (n int) {
	b.t.Helper()
	b.scan(`SELECT count(*) FROM belfry.message`, nil, &n)
	return n
}

// pushSoon repeats a push until it succeeds. The store may detect free space in the queue with a
// delay.
func (b *bench) pushSoon(partition string, n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return tryPush(b.t.Context(), b, partition, n) == nil }, 30*time.Second, 10*time.Millisecond)
}

func TestAFullQueueRefusesAPush(t *testing.T) {
	b := newBench(t)
	b.register()
	b.option("max_size = 5")
	require.NoError(t, tryPush(t.Context(), b, "p", 2))
	require.NoError(t, tryPush(t.Context(), b, "other", 2), "the limit applies to the queue, not to a partition")
	requireFull(t, tryPush(t.Context(), b, "third", 2), `queue "q" is full: its maxSize is 5, 4 messages wait in it and this request brings 2; `+
		`nothing of it was stored: send it again once consumers have caught up, or raise maxSize`)
	requireFull(t, tryPush(t.Context(), b, "p", 6), `queue "q" is full: its maxSize is 5, 4 messages wait in it and this request brings 6; `+
		`nothing of it was stored: send fewer items per call, or raise maxSize`)
	require.NoError(t, tryPush(t.Context(), b, "p", 1), "a refused push uses no space")
	require.Equal(t, 5, b.stored())

	mixed := []queue.PushItem{item("p", "a"), item("p", "b")}
	mixed[0].Queue = "without a limit"
	_, err := b.Push(t.Context(), mixed)
	require.Equal(t, queue.CodeQueueFull, queue.CodeOf(err))
	require.Equal(t, 5, b.stored(), "a refused request stores no message in any of its queues")
}

func TestConsumptionMakesRoom(t *testing.T) {
	b := newBench(t, "fast", "slow")
	b.option("max_size = 4")
	require.NoError(t, tryPush(t.Context(), b, "p", 4))
	take := func(group string, n int) {
		t.Helper()
		req := request(group, n, withAutoAck(true))
		require.Len(t, b.pop(req).Messages, n)
	}
	take("fast", 4)
	require.Equal(t, queue.CodeQueueFull, queue.CodeOf(tryPush(t.Context(), b, "p", 1)), "the depth is that of the slowest group")
	take("slow", 3)
	b.pushSoon("p", 3)
	require.Equal(t, queue.CodeQueueFull, queue.CodeOf(tryPush(t.Context(), b, "p", 1)))

	// Partition "lonely" has no cursor, so all its stored messages count. Deleted messages do not
	// count.
	b.option("max_size = 9")
	b.pushSoon("lonely", 5)
	b.exec(`UPDATE belfry.consumer_group SET whole_queue = false`) // as if the groups had popped from "p" alone
	b.exec(`DELETE FROM belfry.cursor WHERE partition_id = (SELECT id FROM belfry.partition WHERE name = 'lonely')`)
	require.Equal(t, queue.CodeQueueFull, queue.CodeOf(tryPush(t.Context(), b, "p", 1)))
	b.exec(`DELETE FROM belfry.message WHERE seq <= 2 AND partition_id = (SELECT id FROM belfry.partition WHERE name = 'lonely')`)
	b.pushSoon("p", 2)
	require.Equal(t, queue.CodeQueueFull, queue.CodeOf(tryPush(t.Context(), b, "p", 1)))
}

// Another instance applies a new limit at its next push. It detects a removed limit with a delay.
func TestANewLimitAppliesOnAllInstancesAtOnce(t *testing.T) {
	b := newBench(t)
	other := newStore(t, b.pool, prometheus.NewRegistry(), nil)
	require.NoError(t, tryPush(t.Context(), b, "p", 3))
	require.NoError(t, tryPush(t.Context(), other, "p", 3))
	b.option("max_size = 6")
	for _, s := range []pusher{b, other} {
		require.Equal(t, queue.CodeQueueFull, queue.CodeOf(tryPush(t.Context(), s, "p", 1)))
	}
	require.Equal(t, 6, b.stored())
	b.option("max_size = 0")
	require.Eventually(t, func() bool { return tryPush(t.Context(), other, "p", 100) == nil }, 30*time.Second, 10*time.Millisecond)
	b.option("max_size = 200")
	require.NoError(t, tryPush(t.Context(), other, "p", 90))
	require.Equal(t, queue.CodeQueueFull, queue.CodeOf(tryPush(t.Context(), other, "p", 90)))
}

// Concurrent pushes to one instance do not exceed the limit. Two instances may exceed it by the
// messages that one instance stored after the last measurement of the other instance.
func TestConcurrentPushesRespectTheLimit(t *testing.T) {
	t.Parallel()
	const limit, pushers = 500, 16
	for instances := 1; instances <= 2; instances++ {
		t.Run(fmt.Sprint(instances, " instances"), func(t *testing.T) {
			b := newBench(t)
			b.register()
			b.option("max_size = 500")
			stores := []pusher{b, newStore(t, b.pool, prometheus.NewRegistry(), nil)}[:instances]
			var wg sync.WaitGroup
			for i := range pushers {
				wg.Go(func() {
					for tryPush(t.Context(), stores[i%instances], "p", 3) == nil {
					}
				})
			}
			wg.Wait()
			require.LessOrEqual(t, b.stored(), instances*limit)
			require.Greater(t, b.stored(), limit/2)
			require.Equal(t, queue.CodeQueueFull, queue.CodeOf(tryPush(t.Context(), b, "p", limit)))
		})
	}
}

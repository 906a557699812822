package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// afterPromotion limits the time from the promotion until pushes succeed on the new primary.
const afterPromotion = 10 * time.Second

// TestFailover kills the primary under load and promotes its synchronous standby. The DSN of the server names both hosts.
// All acknowledged messages must be delivered in order. A waiting pop must also receive its message.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary, standby := replicated(t)
	require.NoError(t, primary.CreateDatabase(t.Context(), "failover"))
	hosts := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", primary.Port(), standby.Port())
	dsn := "postgres://postgres@" + hosts + "/failover?sslmode=disable&target_session_attrs=read-write"
	s := startOn(t, dsn, proven, func(c *config.Config) { c.Database.RequestTimeout = 2 * time.Second })
	s.client(t).popIDs("q", "batch=1") // so the cursor of the group exists before the first message

	ctx, finish := context.WithCancel(t.Context())
	defer finish()
	acknowledged := make([]int, 4)
	progress := make(chan int, 1<<16)
	producing := pushThroughFailures(ctx, s, acknowledged, progress)
	await := func(what string, messages int) {
		t.Helper()
		for range messages {
			select {
			case <-progress:
			case <-time.After(patience):
				require.FailNow(t, what)
			}
		}
	}
	await("too few pushes succeeded before the failover", 200)
	require.NoError(t, primary.Kill())
	for len(progress) > 0 {
		<-progress
	}
	promoted := stopwatch.Start(t)
	require.NoError(t, pgtest.Promote(t.Context(), standby))
	await("too few pushes succeeded after the failover", 200)
	t.Logf("200 pushes succeeded %s after the promotion began", promoted.Elapsed().Round(time.Millisecond))
	promoted.Within(t, afterPromotion, "time until pushes succeed again")
	finish()
	producing.Wait()

	require.Equal(t, acknowledged, popInOrder(s.client(t), len(acknowledged)))

	waiting := s.client(t).begin(anyOf("q"))
	s.untilParked(t, "q", 1)
	since := stopwatch.Start(t)
	s.client(t).pushIDs("q", "0", "m")
	inTime(t, waiting, since, afterKill)
}

// pushThroughFailures starts one producer for each element of acknowledged. The producers run until ctx ends. Each producer
// has its own partition and repeats a message until the push succeeds. After each success it stores the number of its
// messages in acknowledged and sends its index to progress.
func pushThroughFailures(ctx context.Context, s *server, acknowledged []int, progress chan<- int) *sync.WaitGroup {
	var producing sync.WaitGroup
	for p := range acknowledged {
		producing.Go(func() {
			for n := 0; ctx.Err() == nil; {
				got, err := s.send(context.WithoutCancel(ctx), pushCall(item{
					Queue: "q", Partition: fmt.Sprint(p), TransactionID: fmt.Sprintf("%d-%d", p, n),
				}))
				if err == nil && got.Status == http.StatusCreated {
					n++
					acknowledged[p] = n
					progress <- p
				}
			}
		})
	}
	return &producing
}

// popInOrder consumes all messages of pushThroughFailures. It requires that the messages of each producer are in order. It
// returns the number of messages of each producer.
func popInOrder(c client, producers int) []int {
	c.t.Helper()
	next := make([]int, producers)
	for {
		got := c.popIDs("q", "batch=1000&autoAck=true")
		if len(got) == 0 {
			return next
		}
		for _, id := range got {
			var p, n int
			_, err := fmt.Sscanf(id, "%d-%d", &p, &n)
			require.NoError(c.t, err)
			require.Equal(c.t, next[p], n, "the messages of producer %d must be in order", p)
			next[p]++
		}
	}
}

// replicated returns a primary and a synchronous standby.
func replicated(t *testing.T) (primary, standby *devdb.Cluster) {
	t.Helper()
	primary, standby = pgtest.OwnCluster(t), pgtest.OwnCluster(t)
	require.NoError(t, pgtest.Follow(t.Context(), primary, standby))
	return primary, standby
}

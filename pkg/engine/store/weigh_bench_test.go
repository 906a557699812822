package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// docs/performance.md uses these benchmarks to show the effect of single mechanisms. To measure a mechanism, build test
// binaries with it and without it (go test -c), and run them alternately.

// reportTimes reports the median and the 99th percentile of times, in milliseconds.
func reportTimes(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	for name, at := range map[string]int{"p50": 50, "p99": 99} {
		b.ReportMetric(float64(times[len(times)*at/100].Microseconds())/1000, name+"-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPopBesideAHeldSnapshot measures a pop and its ack after 100 partitions have made 3,000 versions of their
// cursors, which a held snapshot keeps.
func BenchmarkPopBesideAHeldSnapshot(b *testing.B) {
	const partitions, cycles = 100, 3000
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprintf("held=%t", held), func(b *testing.B) {
			s := newBench(b)
			s.register("g")
			for p := range partitions {
				s.push(fmt.Sprint(p), "first")
			}
			if held {
				tx, err := s.pool.BeginTx(b.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
				require.NoError(b, err)
				defer func() { _ = tx.Rollback(context.WithoutCancel(b.Context())) }()
				_, err = tx.Exec(b.Context(), "SELECT count(*) FROM belfry.cursor")
				require.NoError(b, err)
			}
			cycle := func(i int) time.Duration {
				s.push(fmt.Sprint(i%partitions), queue.NewID().String())
				began := time.Now()
				d := s.pop(request("g", 1))
				_, err := s.Ack(b.Context(), acks(d, queue.AckCompleted, d.Messages...))
				require.NoError(b, err)
				return time.Since(began)
			}
			for i := range cycles {
				cycle(i)
			}
			var times []time.Duration
			for b.Loop() {
				times = append(times, cycle(len(times)))
			}
			reportTimes(b, times)
		})
	}
}

// BenchmarkPushToAQueueWithMaxSize measures pushes, one every 10 ms, to a queue with a maxSize in which messages wait in
// 60,000 partitions.
func BenchmarkPushToAQueueWithMaxSize(b *testing.B) {
	const partitions, atOnce = 60_000, 1000
	s := newBench(b)
	s.register("g")
	for i := 0; i < partitions; i += atOnce {
		items := make([]queue.PushItem, atOnce)
		for j := range items {
			items[j] = item(fmt.Sprint(i+j), "")
		}
		_, err := s.Push(b.Context(), items)
		require.NoError(b, err)
	}
	s.option("max_size = 1000000000")
	require.NoError(b, tryPush(b.Context(), s, "p", 1)) // waits for the first count
	var mu sync.Mutex
	var times []time.Duration
	var pushes sync.WaitGroup
	due := time.NewTicker(10 * time.Millisecond)
	for b.Loop() {
		began := <-due.C
		pushes.Go(func() {
			if err := tryPush(b.Context(), s, "p", 1); err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Since(began))
		})
	}
	pushes.Wait()
	reportTimes(b, times)
}

// BenchmarkAcksBesideAHeldCursor measures acks while a SQL consumer holds the cursor of another partition. Other goroutines
// continuously send late acks for the held partition.
func BenchmarkAcksBesideAHeldCursor(b *testing.B) {
	s := newBench(b)
	s.register("g")
	s.push("p", "1")
	late := s.pop(request("g", 1))
	s.endLeases()
	tx := s.begin(s.connect())
	require.Len(b, s.sqlPop(tx, "g", 1, 1), 1)
	end, stop := context.WithCancel(b.Context())
	var others sync.WaitGroup
	others.Go(func() {
		for next := time.NewTicker(50 * time.Millisecond); end.Err() == nil; <-next.C {
			others.Go(func() { _, _ = s.Ack(end, unfenced(late, queue.AckCompleted, late.Messages...)) })
		}
	})
	var times []time.Duration
	for b.Loop() {
		s.push("s", queue.NewID().String())
		d := s.pop(request("g", 1))
		began := time.Now()
		_, err := s.Ack(b.Context(), acks(d, queue.AckCompleted, d.Messages...))
		require.NoError(b, err)
		times = append(times, time.Since(began))
	}
	stop()
	require.NoError(b, tx.Rollback(context.WithoutCancel(b.Context())))
	others.Wait()
	reportTimes(b, times)
}

// BenchmarkFirstRequest measures the first push, pop and ack of a new server, with and without Warm.
func BenchmarkFirstRequest(b *testing.B) {
	for _, warm := range []bool{true, false} {
		b.Run(fmt.Sprintf("warm=%t", warm), func(b *testing.B) {
			dsn := pgtest.Database(b)
			var times []time.Duration
			for b.Loop() {
				cfg := postgres.DefaultConfig()
				cfg.URL = setting.Secret(dsn)
				pool, err := postgres.Open(b.Context(), cfg, "store-test", 3)
				require.NoError(b, err)
				b.Cleanup(pool.Close)
				s := &bench{t: b, pool: pool}
				s.Store = newStore(b, s.pool, prometheus.NewRegistry(), nil)
				if warm {
					require.NoError(b, s.Warm(b.Context()))
				}
				began := time.Now()
				s.push("p", queue.NewID().String())
				d := s.pop(request("g", 1))
				_, err = s.Ack(b.Context(), acks(d, queue.AckCompleted, d.Messages...))
				require.NoError(b, err)
				times = append(times, time.Since(began))
			}
			reportTimes(b, times)
		})
	}
}

package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// BenchmarkPopAck measures pops with their acks by several workers. It reports messages per second.
// To compare two versions, build both with go test -c and run them in turns.
func BenchmarkPopAck(b *testing.B) {
	for _, c := range []struct{ workers, partitions, batch int }{{1, 1, 1}, {8, 64, 1}, {8, 64, 10}, {4, 16, 100}} {
		b.Run(fmt.Sprintf("workers=%d/partitions=%d/batch=%d", c.workers, c.partitions, c.batch), func(b *testing.B) {
			s := newBench(b)
			var took time.Duration
			var messages int64
			for b.Loop() {
				each := max(1, min(20, 4000/c.partitions)) * c.batch
				fill(b, s, c.partitions, each)
				began := time.Now()
				n := popAndAck(b, s, c.workers, c.batch, int64(c.partitions*each))
				took += time.Since(began)
				messages += n
			}
			b.ReportMetric(float64(messages)/took.Seconds(), "messages/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fill pushes messages to every partition.
func fill(b *testing.B, s *bench, partitions, each int) {
	b.Helper()
	for p := range partitions {
		items := make([]queue.PushItem, each)
		for i := range items {
			items[i] = item(fmt.Sprintf("p%d", p), "")
		}
		_, err := s.Push(b.Context(), items)
		require.NoError(b, err)
	}
}

// popAndAck pops and acknowledges total messages.
func popAndAck(b *testing.B, s *bench, workers, batch int, total int64) int64 {
	var done atomic.Int64
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for done.Load() < total {
				d, err := s.Pop(b.Context(), request("g", batch))
				if err != nil {
					b.Error(err)
					return
				}
				if len(d.Messages) == 0 {
					continue
				}
				if _, err := s.Ack(b.Context(), acks(d, queue.AckCompleted, d.Messages...)); err != nil {
					b.Error(err)
					return
				}
				done.Add(int64(len(d.Messages)))
			}
		})
	}
	work.Wait()
	return done.Load()
}

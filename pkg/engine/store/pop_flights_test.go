package store_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
)

// A pop that asks for more than batch.max_size messages often finds none. So such pops
// leave no flight for others, as pushes of that size do.
func TestPopsOfAnySizeUseAllFlights(t *testing.T) {
	t.Parallel()
	for op, autoAck := range map[string]bool{"claim": false, "take": true} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.reg = prometheus.NewRegistry()
			b.Store = newStore(t, b.pool, b.reg, nil, func(c *batch.Config) { c.MaxSize, c.ConcurrentSize, c.MaxFlushes = 10, 10, 4 })
			b.register("g")
			release := b.takeAllConnections()
			outcomes := make(chan error, 4)
			for range cap(outcomes) {
				go func() {
					req := request("g", 11)
					req.AutoAck = autoAck
					_, err := b.Pop(t.Context(), req)
					outcomes <- err
				}()
			}
			b.awaitGauge("belfry_batch_flushes_in_flight", op, 4)
			release()
			for range cap(outcomes) {
				require.NoError(t, <-outcomes)
			}
		})
	}
}

package bench

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/bench/load"
)

// progressInterval is the time between two updates of the line on a terminal.
const progressInterval = time.Second

// showProgress updates a line on a terminal until the returned function is called, which clears
// the line.
func showProgress(ctx context.Context, w io.Writer, name string, m *load.Meter) (stop func()) {
	if w == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var line sync.WaitGroup
	line.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		began := time.Now()
		var lastPushed, lastDelivered int64
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			pushed, delivered, _, failed := m.Totals()
			// A closed terminal does not stop the benchmark.
			_, _ = fmt.Fprintf(w, "\r\x1b[K%s %3.0f s: %d/s pushed, %d/s delivered, %d and %d in all, %d errors", name,
				time.Since(began).Seconds(), pushed-lastPushed, delivered-lastDelivered, pushed, delivered, failed)
			lastPushed, lastDelivered = pushed, delivered
		}
	})
	return func() {
		cancel()
		line.Wait()
		_, _ = fmt.Fprint(w, "\r\x1b[K")
	}
}

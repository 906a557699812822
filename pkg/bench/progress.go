package bench

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// progressEvery is how often the line on a terminal is written anew.
const progressEvery = time.Second

// follow shows how a trial goes, on one line, until the returned function is
// called; that clears the line.
func follow(ctx context.Context, w io.Writer, name string, m *meter) (stop func()) {
	if w == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var line sync.WaitGroup
	line.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		began := time.Now()
		var pushed, came int64
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			p, c := m.pushed.Load(), m.came.Load()
			// A terminal that is gone is no reason to stop.
			_, _ = fmt.Fprintf(w, "\r\x1b[K%s %3.0f s: %d/s pushed, %d/s delivered, %d and %d in all, %d errors", name,
				time.Since(began).Seconds(), p-pushed, c-came, p, c, m.failed.Load())
			pushed, came = p, c
		}
	})
	return func() {
		cancel()
		line.Wait()
		_, _ = fmt.Fprint(w, "\r\x1b[K")
	}
}

package dispatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// A refused request is held for refusalHold, and for up to refusalJitter longer or shorter.
const (
	refusalHold   = time.Second
	refusalJitter = time.Second / 4
)

// refuse holds a refused request for about a second, and then returns the error for the client. So a client
// that sends its request again at once, without regard to Retry-After, sends about one a second. A
// held request costs memory and nothing else.
//
// It returns at once if as many requests are held as dispatch.max_intentions allows, or at Stop. It returns
// ctx.Err() if the client left. It never blocks longer than the request would wait.
func (d *Dispatcher) refuse(ctx context.Context, req *queue.PopRequest, why refusal) error {
	d.Metrics.refused.WithLabelValues(string(why)).Inc()
	select {
	case d.refusals <- struct{}{}:
	default:
		return why.error()
	}
	defer func() { <-d.refusals }()
	jitter := time.Duration((2*rand.Float64() - 1) * float64(refusalJitter))
	timer := time.NewTimer(min(refusalHold+jitter, req.Wait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.stopping:
	case <-ctx.Done():
		return ctx.Err()
	}
	return why.error()
}

package dispatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// A refusal is delayed by refusalDelay, and by up to refusalJitter more or less.
const (
	refusalDelay  = time.Second
	refusalJitter = time.Second / 4
)

// refuse blocks for about a second, and then returns the error for the client. So a client that sends its
// request again at once, without regard to Retry-After, sends about one a second. Meanwhile the request
// costs memory and a connection.
//
// It returns at once at Stop, or if a tenth of dispatch.max_intentions has delayed refusals. It returns
// ctx.Err() if the client left. It never blocks longer than the request would wait.
func (d *Dispatcher) refuse(ctx context.Context, req *queue.PopRequest, why refusal) error {
	d.Metrics.refused.WithLabelValues(string(why)).Inc()
	select {
	case d.delayedRefusals <- struct{}{}:
	default:
		return why.error()
	}
	defer func() { <-d.delayedRefusals }()
	jitter := time.Duration((2*rand.Float64() - 1) * float64(refusalJitter))
	timer := time.NewTimer(min(refusalDelay+jitter, req.Wait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.stopping:
	case <-ctx.Done():
		return ctx.Err()
	}
	return why.error()
}

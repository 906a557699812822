package wire

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxStatistics is how many requests for statistics may read the database at a time.
	maxStatistics = 2
	// statisticsWait limits how long a request waits until it may read.
	statisticsWait = 5 * time.Second
)

// Statistics limits how many requests for statistics read the database at a time. Such a query can
// take seconds on a large database. Without the limit, a dashboard could use all connections of the pool.
type Statistics struct {
	// reading holds one element for each request that reads.
	reading chan struct{}
}

// NewStatistics returns the limit of one server.
func NewStatistics() Statistics {
	return Statistics{reading: make(chan struct{}, maxStatistics)}
}

// Acquire blocks until the request may read. The caller calls release after the read. If ctx ends or
// statisticsWait has passed, Acquire returns CodeOverloaded.
func (l Statistics) Acquire(ctx context.Context) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, statisticsWait)
	defer cancel()
	select {
	case l.reading <- struct{}{}:
		return func() { <-l.reading }, nil
	case <-ctx.Done():
		return nil, &queue.Error{
			Code: queue.CodeOverloaded, RetryAfter: time.Second, Err: ctx.Err(),
			Message: "other requests for statistics are still reading the database: send the request again",
		}
	}
}

// Limit returns read with the limit. A request does not count while its client reads the answer.
func (l Statistics) Limit(read func(p *Params) (any, error)) func(p *Params) (any, error) {
	return func(p *Params) (any, error) {
		release, err := l.Acquire(p.Ctx())
		if err != nil {
			return nil, err
		}
		defer release()
		return read(p)
	}
}

package httpapi

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxStatistics is how many statistics read the database at a time.
	maxStatistics = 2
	// statisticsWait bounds how long a request waits until it may read.
	statisticsWait = 5 * time.Second
)

// statisticsLimit bounds how many requests read numbers from the database at a time. Such a query can
// take seconds on a large database. Without the limit, a dashboard could use up the pool.
type statisticsLimit struct {
	// reading holds one element for each request that reads.
	reading chan struct{}
}

func newStatisticsLimit() statisticsLimit {
	return statisticsLimit{reading: make(chan struct{}, maxStatistics)}
}

// acquire blocks until a request may read. The caller calls release after that. It returns
// CodeOverloaded when ctx ends, or after statisticsWait.
func (l statisticsLimit) acquire(ctx context.Context) (release func(), err error) {
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

// limit returns the handler with the limit. The limit does not include the time in which the client
// reads the answer.
func (l statisticsLimit) limit(read func(p *wire.Params) (any, error)) func(p *wire.Params) (any, error) {
	return func(p *wire.Params) (any, error) {
		release, err := l.acquire(p.Ctx())
		if err != nil {
			return nil, err
		}
		defer release()
		return read(p)
	}
}

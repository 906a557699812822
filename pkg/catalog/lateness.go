package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

// latenessTimeout keeps a metrics scrape from waiting long for the query.
const latenessTimeout = time.Second

var sqlLateness = sql.Query("catalog/lateness")

// Lateness says how long ready messages have waited for a consumer.
type Lateness struct {
	// Oldest is the age of the oldest ready message, 0 if none is ready. Only the partition that
	// has been ready the longest is read for each group.
	Oldest time.Duration
	// Groups is the number of groups with a ready message that is older than maxWaitTimeSeconds of
	// its queue.
	Groups int64
}

// Lateness runs one query that costs O(groups). It returns when ctx ends or after one second.
// Errors: CodeUnavailable.
func (c *Catalog) Lateness(ctx context.Context) (Lateness, error) {
	ctx, cancel := context.WithTimeout(ctx, latenessTimeout)
	defer cancel()
	var seconds float64
	var late Lateness
	if err := c.pool.QueryRow(ctx, sqlLateness).Scan(&seconds, &late.Groups); err != nil {
		return Lateness{}, postgres.Wrap(fmt.Errorf("reading the age of ready messages: %w", err))
	}
	late.Oldest = time.Duration(seconds * float64(time.Second))
	return late, nil
}

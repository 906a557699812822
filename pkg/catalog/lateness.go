package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

// Lateness says how long messages that are ready have been waiting for a
// consumer.
type Lateness struct {
	// Oldest is the age of the oldest ready message; 0 when none is ready. Of
	// each group it is that of the partition that has been due the longest.
	Oldest time.Duration
	// Groups are those with a ready message older than the maxWaitTimeSeconds of
	// their queue.
	Groups int64
}

// Lateness looks once, with one query that costs O(groups). ctx ends it. Errors:
// CodeUnavailable.
func (c *Catalog) Lateness(ctx context.Context) (Lateness, error) {
	ctx, cancel := context.WithTimeout(ctx, latenessTimeout)
	defer cancel()
	var seconds float64
	var late Lateness
	if err := c.pool.QueryRow(ctx, sql.Query("catalog/lateness")).Scan(&seconds, &late.Groups); err != nil {
		return Lateness{}, postgres.Wrap(fmt.Errorf("looking for late messages: %w", err))
	}
	late.Oldest = time.Duration(seconds * float64(time.Second))
	return late, nil
}

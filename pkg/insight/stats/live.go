package stats

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlLeases = sql.Query("insight/stats/leases")

// Leases counts the live leases, their partitions and the messages that they cover.
type Leases struct{ Leases, Partitions, Messages int64 }

// Leases counts the leases on queues that match a pattern of allowed. A nil allowed matches all queues. The cost is
// O(leases). Errors: CodeUnavailable.
func (r *Reader) Leases(ctx context.Context, allowed []string) (found Leases, err error) {
	err = r.pool.ScanRow(ctx, []any{&found.Leases, &found.Partitions, &found.Messages}, sqlLeases, postgres.LikePatterns(allowed))
	return found, postgres.Wrapf(err, "counting the leases")
}

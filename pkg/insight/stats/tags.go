package stats

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlQueueTags = sql.Query("insight/stats/queue_tags")

// TagPairs lists at most limit pairs in order, after a pair. The zero pair: from the first one. The pair of queues without
// tags is left out. The cost does not depend on the number of queues. Errors: CodeUnavailable.
func (r *Reader) TagPairs(ctx context.Context, after api.TagPair, limit int) ([]api.TagPair, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlQueueTags, pgx.RowToStructByPos[api.TagPair], after.Namespace, after.Task, int64(limit))
	return found, postgres.Wrapf(err, "listing the tags of queues")
}

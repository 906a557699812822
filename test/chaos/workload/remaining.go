package workload

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Remaining returns the number of messages that groups have not finished, plus the messages without groups in queues
// with maxWaitTimeSeconds.
func Remaining(ctx context.Context, database *pgxpool.Pool, reads []Read) (left int64, err error) {
	queues, groups := make([]string, len(reads)), make([]string, len(reads))
	for i, read := range reads {
		queues[i], groups[i] = read.Queue, read.Group
	}
	err = database.QueryRow(ctx, `
		SELECT coalesce(sum(p.last_seq - coalesce(c.committed, 0) + coalesce(c.redrives, 0)), 0)::bigint + (SELECT count(*) FROM belfry.inbox)
		       + (SELECT count(*) FROM belfry.queue q
		            JOIN belfry.partition p ON p.queue_id = q.id
		            JOIN belfry.message m ON m.partition_id = p.id
		           WHERE q.deleted_at IS NULL AND q.max_wait_time_seconds > 0
		             AND NOT EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.queue_id = q.id))
		  FROM unnest($1::text[], $2::text[]) AS wanted(queue, name)
		  JOIN belfry.queue q ON q.name = wanted.queue AND q.deleted_at IS NULL
		  JOIN belfry.partition p ON p.queue_id = q.id
		  LEFT JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = wanted.name
		  LEFT JOIN belfry.cursor c ON c.partition_id = p.id AND c.group_id = g.id`, queues, groups).Scan(&left)
	if err != nil {
		return 0, fmt.Errorf("counting the remaining messages: %w", err)
	}
	return left, nil
}

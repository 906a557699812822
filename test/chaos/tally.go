package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// taken is what happened to messages and cursors otherwise than by clients reading.
type taken struct {
	what, how    string
	times, those int64
}

// tallyTaken counts what the triggers of the checker saw: a run in which nothing was
// deleted says nothing of deletions.
const tallyTaken = `
SELECT d.queue, d.how, count(*), count(*) FILTER (WHERE d.unread) FROM chaos.deletion d GROUP BY 1, 2
UNION ALL
SELECT q.name, 'expired', count(*), count(*)
  FROM belfry.dead_letter l
  JOIN belfry.partition p ON p.id = l.partition_id
  JOIN belfry.queue q ON q.id = p.queue_id AND q.deleted_at IS NULL
 WHERE l.error LIKE 'expired after %' GROUP BY 1
UNION ALL
SELECT q.name, 'partitions removed', count(*), count(*) FILTER (WHERE r.last_seq = 0)
  FROM chaos.removal r
  JOIN belfry.queue q ON q.id = r.queue_id GROUP BY 1
UNION ALL
SELECT 'put back for ' || g.name, 'delivered', count(*), count(DISTINCT (r.partition_id, r.seq))
  FROM chaos.redelivery r
  JOIN chaos.group_name g ON g.id = r.group_id
 WHERE g.name = ANY ($1) GROUP BY 1
UNION ALL
SELECT 'cursors of ' || g.name, l.how, count(*), count(*) FILTER (WHERE l.new_place < l.old_place)
  FROM chaos.lease_change l
  JOIN chaos.group_name g ON g.id = l.group_id
 WHERE g.name = ANY ($1) AND l.how <> 'lease' GROUP BY 1, 2
 ORDER BY 1, 2`

func tally(ctx context.Context, database *pgxpool.Pool, groups []string) ([]taken, error) {
	rows, err := database.Query(ctx, tallyTaken, groups)
	if err != nil {
		return nil, fmt.Errorf("counting what was taken away: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (taken, error) {
		var one taken
		err := row.Scan(&one.what, &one.how, &one.times, &one.those)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("counting what was taken away: %w", err)
	}
	return all, nil
}

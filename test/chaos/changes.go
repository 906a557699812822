package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// change is the number of changes of one kind: deletions, expiries, removals, redeliveries or moves of cursors.
type change struct {
	what, how   string
	times, part int64
}

// sqlChanges counts the records of the triggers. The report shows the numbers: without a deletion, a run did not test
// deletions.
const sqlChanges = `
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
SELECT 'redriven for ' || g.name, 'delivered', count(*), count(DISTINCT (r.partition_id, r.seq))
  FROM chaos.redelivery r
  JOIN chaos.group_name g ON g.id = r.group_id
 WHERE g.name = ANY ($1) GROUP BY 1
UNION ALL
SELECT 'cursors of ' || g.name, l.how, count(*), count(*) FILTER (WHERE l.new_seq < l.old_seq)
  FROM chaos.lease_change l
  JOIN chaos.group_name g ON g.id = l.group_id
 WHERE g.name = ANY ($1) AND l.how <> 'lease' GROUP BY 1, 2
 ORDER BY 1, 2`

func countChanges(ctx context.Context, database *pgxpool.Pool, groups []string) ([]change, error) {
	rows, err := database.Query(ctx, sqlChanges, groups)
	if err != nil {
		return nil, fmt.Errorf("counting the recorded changes: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (change, error) {
		var one change
		err := row.Scan(&one.what, &one.how, &one.times, &one.part)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("counting the recorded changes: %w", err)
	}
	return all, nil
}

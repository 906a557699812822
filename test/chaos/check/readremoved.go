package check

import (
	"context"
	"fmt"
)

// sqlRemovals reads the removed partitions with their cursors.
const sqlRemovals = `
SELECT q.name, r.partition, r.partition_id, r.last_seq, extract(epoch FROM r.idle)::float8, r.messages,
       CASE WHEN q.retention_enabled THEN q.completed_retention_seconds ELSE 0 END,
       coalesce(g.name, ''), coalesce(g.mode = 'all', false), coalesce(c.committed, 0), coalesce(c.consumed, 0)
  FROM chaos.removal r
  JOIN belfry.queue q ON q.id = r.queue_id AND q.deleted_at IS NULL
  LEFT JOIN chaos.removed_cursor c ON c.partition_id = r.partition_id
  LEFT JOIN belfry.consumer_group g ON g.id = c.group_id
 WHERE q.name = ANY ($1)
 ORDER BY q.name, r.partition_id, g.name`

func readRemovals(ctx context.Context, db Querier, queues []string, state *State) error {
	positions := map[int64]int{}
	var queue, name string
	var id, last, messages, keep int64
	var idle float64
	var c Cursor
	err := query{db, sqlRemovals, queues}.forEach(ctx, func() error {
		at, ok := positions[id]
		if !ok {
			at = len(state.Partitions)
			positions[id] = at
			state.Partitions = append(state.Partitions, Partition{
				Queue: queue, Name: Former(name, id), ID: id, LastSeq: last, CompletedRetention: seconds(keep),
				Removed: &Removal{Idle: fromSeconds(idle), Messages: messages},
			})
		}
		if c.Group != "" {
			state.Partitions[at].Cursors = append(state.Partitions[at].Cursors, c)
		}
		return nil
	}, &queue, &name, &id, &last, &idle, &messages, &keep, &c.Group, &c.FromStart, &c.Committed, &c.Consumed)
	if err != nil {
		return fmt.Errorf("reading removed partitions: %w", err)
	}
	return nil
}

const sqlRedelivered = `
SELECT q.name, p.name, g.name, r.lease_id::text, array_agg(r.seq ORDER BY r.seq)
  FROM chaos.redelivery r
  JOIN belfry.partition p ON p.id = r.partition_id
  JOIN belfry.queue q ON q.id = p.queue_id AND q.deleted_at IS NULL
  JOIN chaos.group_name g ON g.id = r.group_id
 WHERE q.name = ANY ($1)
 GROUP BY 1, 2, 3, 4`

func readRedelivered(ctx context.Context, db Querier, queues []string, state *State) error {
	var one Redelivered
	err := query{db, sqlRedelivered, queues}.forEach(ctx, func() error {
		state.Redelivered = append(state.Redelivered, one)
		one.Seqs = nil
		return nil
	}, &one.Queue, &one.Partition, &one.Group, &one.LeaseID, &one.Seqs)
	if err != nil {
		return fmt.Errorf("reading redeliveries: %w", err)
	}
	return nil
}

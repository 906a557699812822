package check

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier is a connection, a transaction or a pool of pgx.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// sqlCursors reads the cursors of all groups. A group of the whole queue has a row even for a partition without a
// cursor.
const sqlCursors = `
SELECT q.name, p.name, p.id, p.last_seq, coalesce(g.name, ''), c.partition_id IS NULL, coalesce(g.mode = 'all', false),
       coalesce(c.committed, 0), coalesce(c.consumed, 0),
       coalesce((SELECT array_agg(d.seq ORDER BY d.seq) FROM belfry.dead_letter d
                  WHERE d.partition_id = p.id AND d.group_id = g.id), '{}'),
       coalesce((SELECT array_agg(r.seq ORDER BY r.seq) FROM belfry.redrive r
                  WHERE r.partition_id = p.id AND r.group_id = g.id), '{}'),
       CASE WHEN q.retention_enabled THEN q.retention_seconds ELSE 0 END,
       CASE WHEN q.retention_enabled THEN q.completed_retention_seconds ELSE 0 END,
       CASE WHEN q.dead_letter_expired THEN q.expire_after_seconds ELSE 0 END,
       q.max_wait_time_seconds
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
  LEFT JOIN belfry.consumer_group g ON g.queue_id = q.id
        AND (g.whole_queue OR EXISTS (SELECT 1 FROM belfry.cursor o WHERE o.partition_id = p.id AND o.group_id = g.id))
  LEFT JOIN belfry.cursor c ON c.partition_id = p.id AND c.group_id = g.id
 WHERE q.deleted_at IS NULL AND q.name = ANY ($1)
 ORDER BY q.name, p.name, g.name`

const sqlLog = `
SELECT q.name, p.name, m.seq, m.id::text, m.transaction_id, m.created_at
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
  JOIN belfry.message m ON m.partition_id = p.id
 WHERE q.deleted_at IS NULL AND q.name = ANY ($1)
 ORDER BY q.name, p.name, m.seq`

const sqlSample = `
SELECT q.name, p.name, p.id, g.name, c.committed, p.last_seq
  FROM belfry.cursor c
  JOIN belfry.partition p ON p.id = c.partition_id
  JOIN belfry.queue q ON q.id = p.queue_id
  JOIN belfry.consumer_group g ON g.id = c.group_id
 WHERE q.deleted_at IS NULL AND q.name = ANY ($1)`

// ReadState reads the partitions of queues from the tables. If a push, pop or ack may run at the same time, db must
// be a repeatable read transaction. The caller adds samples and lease periods.
func ReadState(ctx context.Context, db Querier, queues []string) (State, error) {
	var state State
	positions := map[laneName]int{}
	var name laneName
	var id, last int64
	var c Cursor
	var keep [4]int64
	err := query{db, sqlCursors, queues}.forEach(ctx, func() error {
		at, ok := positions[name]
		if !ok {
			at = len(state.Partitions)
			positions[name] = at
			state.Partitions = append(state.Partitions, Partition{
				Queue: name.queue, Name: name.partition, ID: id, LastSeq: last, Retention: seconds(keep[0]),
				CompletedRetention: seconds(keep[1]), ExpireAfter: seconds(keep[2]), MaxWait: seconds(keep[3]),
			})
		}
		if c.Group != "" {
			state.Partitions[at].Cursors = append(state.Partitions[at].Cursors, c)
		}
		c.Dead, c.Redriven = nil, nil
		return nil
	}, &name.queue, &name.partition, &id, &last, &c.Group, &c.Missing, &c.FromStart, &c.Committed, &c.Consumed, &c.Dead, &c.Redriven,
		&keep[0], &keep[1], &keep[2], &keep[3])
	if err != nil {
		return State{}, fmt.Errorf("reading cursors: %w", err)
	}
	var m Message
	err = query{db, sqlLog, queues}.forEach(ctx, func() error {
		at, ok := positions[name]
		if !ok {
			return fmt.Errorf("partition %q of queue %q appeared while the state was read", name.partition, name.queue)
		}
		state.Partitions[at].Log = append(state.Partitions[at].Log, m)
		return nil
	}, &name.queue, &name.partition, &m.Seq, &m.MessageID, &m.TransactionID, &m.CreatedAt)
	if err != nil {
		return State{}, fmt.Errorf("reading logs: %w", err)
	}
	return state, nil
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// ReadSamples reads the positions of all cursors of queues. After the read it calls now, the clock of the history.
func ReadSamples(ctx context.Context, db Querier, queues []string, now func() time.Duration) ([]Sample, error) {
	var samples []Sample
	var s Sample
	err := query{db, sqlSample, queues}.forEach(ctx, func() error {
		samples = append(samples, s)
		return nil
	}, &s.Queue, &s.Partition, &s.ID, &s.Group, &s.Committed, &s.LastSeq)
	if err != nil {
		return nil, fmt.Errorf("sampling cursors: %w", err)
	}
	at := now()
	for i := range samples {
		samples[i].At = at
	}
	return samples, nil
}

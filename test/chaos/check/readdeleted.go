package check

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const sqlDeletions = `
SELECT d.queue, d.partition || coalesce('#' || r.partition_id, ''), d.seq, d.id::text, d.transaction_id, d.how,
       extract(epoch FROM d.age)::float8, d.unread, d.held
  FROM chaos.deletion d
  JOIN belfry.queue q ON q.id = d.queue_id AND q.deleted_at IS NULL
  LEFT JOIN chaos.removal r ON r.partition_id = d.partition_id
 WHERE d.queue = ANY ($1)
 ORDER BY d.queue, d.partition, d.seq`

// sqlErased reads the messages of deleted queues, both purged messages and messages that a purge has not reached yet.
const sqlErased = `
SELECT d.queue, d.partition, d.transaction_id
  FROM chaos.deletion d
 WHERE d.queue = ANY ($1) AND NOT EXISTS (SELECT 1 FROM belfry.queue q WHERE q.id = d.queue_id AND q.deleted_at IS NULL)
UNION ALL
SELECT q.name, p.name, m.transaction_id
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
  JOIN belfry.message m ON m.partition_id = p.id
 WHERE q.deleted_at IS NOT NULL AND q.name = ANY ($1)`

const sqlExpired = `
SELECT q.name, p.name, g.name, l.seq, extract(epoch FROM l.failed_at - m.created_at)::float8
  FROM belfry.queue q
  JOIN belfry.partition p ON p.queue_id = q.id
  JOIN belfry.dead_letter l ON l.partition_id = p.id
  JOIN belfry.consumer_group g ON g.id = l.group_id
  JOIN belfry.message m ON m.partition_id = l.partition_id AND m.seq = l.seq
 WHERE q.deleted_at IS NULL AND q.name = ANY ($1) AND l.error LIKE 'expired after %'
 ORDER BY l.seq`

// Each cursor counts the messages that a pop found expired, and queue_sweep counts the messages that a sweep expired.
const sqlSweeps = `
SELECT q.name, coalesce(s.retention, 0), coalesce(s.completed, 0), coalesce(s.evicted, 0), coalesce(s.unread, 0),
       coalesce(s.expired, 0) + k.expired
  FROM belfry.queue q
  LEFT JOIN belfry.queue_sweep s ON s.queue_id = q.id
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(c.expired), 0)::bigint AS expired
         FROM belfry.partition p JOIN belfry.cursor c ON c.partition_id = p.id WHERE p.queue_id = q.id) AS k
 WHERE q.deleted_at IS NULL AND q.name = ANY ($1)
 ORDER BY q.name`

// ReadDeletions adds the recorded changes since Watch to a state of ReadState: deleted messages, removed partitions,
// expired messages, the counters of sweeps, and redelivered messages.
func ReadDeletions(ctx context.Context, db Querier, queues []string, state *State) error {
	if err := readRemovals(ctx, db, queues, state); err != nil {
		return err
	}
	if err := readRedelivered(ctx, db, queues, state); err != nil {
		return err
	}
	positions := map[laneName]*Partition{}
	for i := range state.Partitions {
		p := &state.Partitions[i]
		positions[laneName{p.Queue, p.Name}] = p
	}
	var name laneName
	var d Deletion
	var age float64
	err := query{db, sqlDeletions, queues}.forEach(ctx, func() error {
		p := positions[name]
		if p == nil {
			return fmt.Errorf("partition %q of queue %q was removed while the state was read", name.partition, name.queue)
		}
		d.Age = fromSeconds(age)
		p.Deleted = append(p.Deleted, d)
		return nil
	}, &name.queue, &name.partition, &d.Seq, &d.MessageID, &d.TransactionID, &d.How, &age, &d.Unread, &d.Held)
	if err != nil {
		return fmt.Errorf("reading deletions: %w", err)
	}
	var e Erased
	err = query{db, sqlErased, queues}.forEach(ctx, func() error {
		state.Erased = append(state.Erased, e)
		return nil
	}, &e.Queue, &e.Partition, &e.TransactionID)
	if err != nil {
		return fmt.Errorf("reading messages of deleted queues: %w", err)
	}
	var group string
	var one Expiry
	err = query{db, sqlExpired, queues}.forEach(ctx, func() error {
		one.Age = fromSeconds(age)
		for i := range positions[name].Cursors {
			if c := &positions[name].Cursors[i]; c.Group == group {
				c.Expired = append(c.Expired, one)
			}
		}
		return nil
	}, &name.queue, &name.partition, &group, &one.Seq, &age)
	if err != nil {
		return fmt.Errorf("reading expired messages: %w", err)
	}
	var s Sweep
	err = query{db, sqlSweeps, queues}.forEach(ctx, func() error {
		state.Sweeps = append(state.Sweeps, s)
		return nil
	}, &s.Queue, &s.Retention, &s.Completed, &s.Evicted, &s.Unread, &s.Expired)
	if err != nil {
		return fmt.Errorf("reading the counters of sweeps: %w", err)
	}
	return nil
}

// query is a statement with the names of queues as its parameter.
type query struct {
	db     Querier
	sql    string
	queues []string
}

// forEach calls each for every row. Before each call it scans the columns into into.
func (q query) forEach(ctx context.Context, each func() error, into ...any) error {
	rows, err := q.db.Query(ctx, q.sql, q.queues)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, each)
	}
	return err
}

// fromSeconds converts a number of seconds.
func fromSeconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

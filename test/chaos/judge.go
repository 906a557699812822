package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// evidence is what a run leaves to judge. The database is idle and drained.
type evidence struct {
	operations     []history.Operation
	windows        []window
	queues, groups []string
	database       *pgxpool.Pool
}

// judgeFunc returns what was not as promised, or nil.
type judgeFunc func(ctx context.Context, e evidence) error

// mostFindings bounds what one rule says: one bug often shows a thousand times.
const mostFindings = 10

// place is where a message is stored.
type place struct{ queue, partition, transactionID string }

// remaining counts what is left, over all groups.
func remaining(ctx context.Context, database *pgxpool.Pool, queues, groups []string) (left int64, err error) {
	err = database.QueryRow(ctx, `
		SELECT coalesce(sum(p.last_seq - coalesce(c.committed, 0)), 0)::bigint
		  FROM belfry.queue q
		  JOIN belfry.partition p ON p.queue_id = q.id
		 CROSS JOIN unnest($2::text[]) AS wanted(name)
		  LEFT JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = wanted.name
		  LEFT JOIN belfry.cursor c ON c.partition_id = p.id AND c.group_id = g.id
		 WHERE q.name = ANY ($1) AND q.deleted_at IS NULL`, queues, groups).Scan(&left)
	if err != nil {
		return 0, fmt.Errorf("counting what is left: %w", err)
	}
	return left, nil
}

// judgeCounts looks for the plainest breaches: what was acknowledged is stored
// once, under the id that was told; what is stored was pushed; and it was
// delivered to every group, or is a dead letter. Order and leases it does not
// judge.
func judgeCounts(ctx context.Context, e evidence) error {
	stored, err := readLog(ctx, e)
	if err != nil {
		return err
	}
	dead, err := readDead(ctx, e)
	if err != nil {
		return err
	}
	var f findings
	pushed := map[place]bool{}
	reached := map[string]map[place]bool{}
	consumed := map[string]map[string]bool{} // by group and queue: an autoAck pop of unknown outcome
	for _, group := range e.groups {
		reached[group], consumed[group] = map[place]bool{}, map[string]bool{}
	}
	for _, o := range e.operations {
		for _, item := range o.Items {
			at := place{o.Queue, item.Partition, item.TransactionID}
			switch {
			case o.Kind == history.Push && o.Outcome == history.Done:
				pushed[at] = true
				if id, ok := stored[at]; !ok {
					f.add("lost", "%v was acknowledged by operation %d and is not stored", at, o.ID)
				} else if id != item.MessageID {
					f.add("identity", "%v is stored as %s, operation %d was told %s", at, id, o.ID, item.MessageID)
				}
			case o.Kind == history.Push && o.Outcome == history.Unknown:
				pushed[at] = true
			case o.Kind == history.Pop:
				reached[o.Group][at] = true
				if id := stored[at]; id != item.MessageID {
					f.add("identity", "%v is stored as %q, operation %d delivered it as %s", at, id, o.ID, item.MessageID)
				}
			}
		}
		if o.Kind == history.Pop && o.AutoAck && o.Outcome != history.Done {
			consumed[o.Group][o.Queue] = true
		}
	}
	for at := range stored {
		if !pushed[at] {
			f.add("invented", "%v is stored and nobody pushed it", at)
		}
		for _, group := range e.groups {
			if !reached[group][at] && !dead[group][at] && !consumed[group][at.queue] {
				f.add("skipped", "%v was never delivered to %s", at, group)
			}
		}
	}
	return f.err()
}

// readLog returns the message ids of all that is stored.
func readLog(ctx context.Context, e evidence) (map[place]string, error) {
	rows, err := e.database.Query(ctx, `
		SELECT q.name, p.name, m.transaction_id, m.id::text
		  FROM belfry.queue q JOIN belfry.partition p ON p.queue_id = q.id JOIN belfry.message m ON m.partition_id = p.id
		 WHERE q.name = ANY ($1) AND q.deleted_at IS NULL`, e.queues)
	stored := map[place]string{}
	var at place
	var id string
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&at.queue, &at.partition, &at.transactionID, &id}, func() error {
			stored[at] = id
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	return stored, nil
}

// readDead returns the dead letters of each group.
func readDead(ctx context.Context, e evidence) (map[string]map[place]bool, error) {
	rows, err := e.database.Query(ctx, `
		SELECT g.name, q.name, p.name, m.transaction_id
		  FROM belfry.dead_letter d
		  JOIN belfry.consumer_group g ON g.id = d.group_id
		  JOIN belfry.queue q ON q.id = g.queue_id
		  JOIN belfry.partition p ON p.id = d.partition_id
		  JOIN belfry.message m ON m.partition_id = d.partition_id AND m.seq = d.seq
		 WHERE q.name = ANY ($1) AND q.deleted_at IS NULL`, e.queues)
	dead := map[string]map[place]bool{}
	var group string
	var at place
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&group, &at.queue, &at.partition, &at.transactionID}, func() error {
			if dead[group] == nil {
				dead[group] = map[place]bool{}
			}
			dead[group][at] = true
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the dead letters: %w", err)
	}
	return dead, nil
}

// findings keeps the first few of each rule.
type findings struct {
	count map[string]int
	errs  []error
}

func (f *findings) add(rule, format string, args ...any) {
	if f.count == nil {
		f.count = map[string]int{}
	}
	f.count[rule]++
	if f.count[rule] <= mostFindings {
		f.errs = append(f.errs, fmt.Errorf(rule+": "+format, args...))
	}
}

func (f *findings) err() error {
	for rule, count := range f.count {
		if count > mostFindings {
			f.errs = append(f.errs, fmt.Errorf("%s: %d in all", rule, count))
		}
	}
	return errors.Join(f.errs...)
}

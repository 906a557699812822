package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	groupsQueue      = "groups"
	groupsAll        = 10_000
	groupsWaiting    = 100
	groupsPartitions = 16
	groupsRate       = 200 // pushes a second
	// sweptRequests counts the requests that a resync woke.
	sweptRequests = `belfry_dispatch_woken_total{source="sweep"}`
)

// measureGroups measures a queue with many groups. Requests of some groups wait at one instance. The pushes go to another
// instance.
func measureGroups(ctx context.Context, r *suite, out *rig.Report) (err error) {
	names := make([]string, groupsWaiting)
	for i := range names {
		names[i] = fmt.Sprintf("g%d", i)
	}
	all := make([]load.Lane, groupsPartitions)
	for p := range all {
		all[p] = load.Lane{Queue: groupsQueue, Partition: fmt.Sprintf("p%d", p)}
	}
	t, err := r.start(ctx, 2, names, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	if err := t.makeGroups(ctx); err != nil {
		return err
	}
	second := t.servers[1]
	consumers := load.NewWorkers(ctx)
	for i := range names {
		consumers.Go(t.NewConsumer(load.PopOptions{
			Client: second.Client, Queue: groupsQueue, Group: i, Batch: 100, Partitions: groupsPartitions, AutoAck: true, Wait: longWait,
		}).Loop)
	}
	var before, after float64
	if err = t.waitArrived(consumers.Context, second, groupsWaiting); err == nil {
		before, err = metric(ctx, second.Client, sweptRequests)
	}
	if err == nil {
		err = t.groupsPushes(consumers.Context)
	}
	if err == nil {
		after, err = metric(ctx, second.Client, sweptRequests)
	}
	counts, err := t.finish(ctx, err, consumers)
	if err != nil {
		return err
	}
	out.Promises("", counts, true)
	out.Count("requests that a resync woke at the second instance", int(after-before), 0)
	pushed := int(t.Meter.Pushed.Within.Load())
	out.Note("messages pushed", fmt.Sprintf("%d, %.0f a second", pushed, float64(pushed)/t.groupsFor.Seconds()))
	times := t.Meter.Times[load.TimeFromAnswer]
	out.NoteTime(fmt.Sprintf("%d deliveries to %d of %d groups, p50", times.Count(), groupsWaiting, groupsAll), times, 0.5)
	out.NoteTime(fromAnswer+"p99", times, 0.99)
	asked, err := t.statements(ctx)
	if err != nil {
		return err
	}
	out.Remark("statements for each message (mean time)", describe(withoutCanaries(asked), pushed))
	return nil
}

// makeGroups creates the partitions, all groups and their cursors. The cursors of groups without a request are ready, and
// no consumer takes their messages.
func (t *trial) makeGroups(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, t.cluster.URL(t.database))
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, query := range []string{
		fmt.Sprintf(`INSERT INTO belfry.partition (queue_id, name)
			SELECT q.id, 'p' || i FROM belfry.queue q, generate_series(0, %d) AS i WHERE q.name = '%s'`, groupsPartitions-1, groupsQueue),
		fmt.Sprintf(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue)
			SELECT q.id, 'g' || i, true FROM belfry.queue q, generate_series(0, %d) AS i WHERE q.name = '%s'`, groupsAll-1, groupsQueue),
		fmt.Sprintf(`INSERT INTO belfry.cursor (partition_id, group_id, ready_at)
			SELECT p.id, g.id, CASE WHEN substr(g.name, 2)::int >= %d THEN now() END
			  FROM belfry.partition p JOIN belfry.consumer_group g ON g.queue_id = p.queue_id`, groupsWaiting),
		`VACUUM ANALYZE belfry.cursor, belfry.consumer_group`,
	} {
		if _, err := conn.Exec(ctx, query); err != nil {
			return fmt.Errorf("making groups: %w", err)
		}
	}
	return nil
}

// groupsPushes pushes to every partition at random instants. It waits until every group with a request has every message. A
// push to a partition starts after the answer to the previous push to that partition, so the order is known.
func (t *trial) groupsPushes(ctx context.Context) error {
	if err := t.startMeasuring(ctx); err != nil {
		return err
	}
	end := time.Now().Add(t.groupsFor)
	producers := load.NewWorkers(ctx)
	for lane := range groupsPartitions {
		producers.Go(func(ctx context.Context) error {
			producer := t.NewProducer(lane)
			for next := time.Now(); next.Before(end); next = next.Add(rand.N(2 * groupsPartitions * time.Second / groupsRate)) {
				if err := load.Pause(ctx, time.Until(next)); err != nil {
					return err
				}
				if _, err := producer.Push(ctx, next); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := producers.Wait(); err != nil {
		return err
	}
	_, err := t.Ledger.WaitDrained(ctx, drainPatience)
	return err
}

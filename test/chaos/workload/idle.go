package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// idleQueue is a queue whose partitions become empty and are removed. Retention deletes completed messages. No
// message becomes a dead letter, because dead letters keep their messages. The workload makes its partitions two days
// older.
const idleQueue = "chaos.idle"

// byNameGroup has one consumer per partition. The consumer waits for its partition by name.
const byNameGroup = "by-name"

var (
	idleGroups  = append(slices.Clone(lossyGroups), byNameGroup)
	idleOptions = map[string]any{"retentionEnabled": true, "completedRetentionSeconds": keptFor, "retryLimit": 1_000_000}
)

// These constants limit the random pauses of the producer. The pauses leave a partition idle for some seconds.
const (
	shortestIdle = 200 * time.Millisecond
	longestIdle  = 1500 * time.Millisecond
)

// These constants limit the random pauses between two agings. Each aging makes agedPercent of the partitions older.
// The other partitions stay empty and young for a while.
const (
	shortestAge = 50 * time.Millisecond
	longestAge  = 300 * time.Millisecond
	agedPercent = 10
)

// workIdle starts the clients of idleQueue.
func (c *Clients) workIdle(ctx, stop context.Context, all *sync.WaitGroup) {
	producer := c.client(idleQueue)
	all.Go(func() { producer.feedIdle(ctx, stop, c.cfg.Database) })
	for _, group := range lossyGroups {
		one := c.client(fmt.Sprintf("%s of %s", group, idleQueue))
		one.reads, one.partitions = []string{idleQueue}, idlePartitions
		all.Go(func() { one.consume(ctx, stop, group) })
	}
	for n := range idlePartitions {
		one := c.client(fmt.Sprintf("%s-%d", byNameGroup, n+1))
		one.reads, one.only = []string{idleQueue}, partitionName(n)
		all.Go(func() { one.consume(ctx, stop, byNameGroup) })
	}
	clock := c.client("clock")
	all.Go(func() { clock.age(ctx, stop, c.cfg.Database) })
}

// feedIdle pushes to one or two partitions at a time, sometimes by SQL. It pushes every message once.
func (c *client) feedIdle(ctx, stop context.Context, database *pgxpool.Pool) {
	defer c.http.CloseIdleConnections()
	for n := 0; pause(stop, c.upTo(shortestIdle, longestIdle)); n++ {
		partition := partitionName(c.choose.IntN(idlePartitions))
		items := make([]pushItem, 1+c.choose.IntN(mostFed))
		for i := range items {
			if c.chance(10) {
				partition = partitionName(c.choose.IntN(idlePartitions))
			}
			mark := fmt.Sprintf("%s.%d.%d", c.name, n, i)
			items[i] = pushItem{Queue: idleQueue, Partition: partition, TransactionID: mark, Payload: payload{Mark: mark}}
		}
		if database != nil && c.chance(25) {
			c.pushSQL(ctx, database, items)
		} else {
			c.push(ctx, items)
		}
	}
}

// ageOne moves the timestamps that decide the removal two days back, in one partition per statement. The server locks
// several partitions in a fixed order, so a statement that locks more than one partition could deadlock.
const (
	youngPartitions = `
SELECT p.id
  FROM belfry.partition p
  JOIN belfry.queue q ON q.id = p.queue_id
 WHERE q.name = $1 AND q.deleted_at IS NULL AND coalesce(p.last_push_at, p.created_at) > now() - interval '1 day'`
	ageOne = `
UPDATE belfry.partition
   SET created_at = created_at - interval '2 days', last_push_at = last_push_at - interval '2 days'
 WHERE id = $1`
)

// age makes partitions of the queue look as if the last push was two days ago. It ignores failures, because Postgres
// may be unavailable.
func (c *client) age(ctx, stop context.Context, database *pgxpool.Pool) {
	for pause(stop, c.upTo(shortestAge, longestAge)) {
		_ = c.ageSome(ctx, database, agedPercent)
	}
}

func (c *client) ageSome(ctx context.Context, database *pgxpool.Pool, percent int) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := database.Query(ctx, youngPartitions, idleQueue)
	if err != nil {
		return fmt.Errorf("finding young partitions: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("finding young partitions: %w", err)
	}
	for _, id := range ids {
		if !c.chance(percent) {
			continue
		}
		if _, err := database.Exec(ctx, ageOne, id); err != nil {
			return fmt.Errorf("aging partition %d: %w", id, err)
		}
	}
	return nil
}

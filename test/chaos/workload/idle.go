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

// idleQueue is a queue whose partitions become empty and are removed. Completed messages are deleted, and no message
// becomes a dead letter, because dead letters keep their messages. The workload ages its partitions by days.
const idleQueue = "chaos.idle"

// byNameGroup has a consumer for each partition, which waits for that partition by name.
const byNameGroup = "by-name"

var (
	idleGroups  = append(slices.Clone(lossyGroups), byNameGroup)
	idleOptions = map[string]any{"retentionEnabled": true, "completedRetentionSeconds": keptFor, "retryLimit": 1_000_000}
)

// The pauses of its producer. They leave a partition idle for some seconds.
const (
	shortestIdle = 200 * time.Millisecond
	longestIdle  = 1500 * time.Millisecond
)

// The pauses between two agings, and the percentage of partitions that each aging ages. The others stay empty and young
// for a while.
const (
	shortestAge = 50 * time.Millisecond
	longestAge  = 300 * time.Millisecond
	agedPercent = 10
)

// workIdle starts the clients of the queue whose partitions are removed.
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

// feedIdle pushes to one or two partitions at a time, sometimes by SQL, every message once.
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

// The timestamps that decide the removal are moved two days back, in one partition at a time. The product locks several
// partitions in its own order, so locking more than one could deadlock.
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

// age makes the partitions of the queue look as if two days had passed since the last push. It skips failures while
// Postgres is unavailable.
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

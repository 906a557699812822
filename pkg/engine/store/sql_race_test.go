package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// consumeInSQL runs one round of a SQL consumer: pop, effects and ack in one transaction. One in
// five transactions rolls back. It returns the number of consumed messages.
func consumeInSQL(ctx context.Context, conn *pgx.Conn, group string) (n int, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ignoreClosed(tx.Rollback(context.WithoutCancel(ctx)))) }()
	tag, err := tx.Exec(ctx, `WITH popped AS MATERIALIZED (
			SELECT lease, partition_name, seq FROM belfry.pop('q', $1, $2, partitions => $3)
		), effects AS (
			INSERT INTO public.effect (group_name, partition_name, seq) SELECT $1, partition_name, seq FROM popped
		)
		SELECT belfry.ack(l.lease) FROM (SELECT DISTINCT lease FROM popped) AS l`, group, 1+rand.IntN(5), 1+rand.IntN(3))
	if err != nil || tag.RowsAffected() == 0 || rand.IntN(5) == 0 {
		return 0, err
	}
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM public.effect WHERE xmin = pg_current_xact_id()::xid`).Scan(&n); err != nil {
		return 0, err
	}
	return n, tx.Commit(ctx)
}

func ignoreClosed(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return nil
	}
	return err
}

// SQL consumers and HTTP consumers of one group race while messages are pushed. Each message is
// consumed once, because a second effect violates the primary key. No cursor is stranded, and no
// deadlock occurs.
func TestSQLAndHTTPConsumersRace(t *testing.T) {
	t.Parallel()
	const rounds, partitions, each = 2000, 3, 2
	b := newBench(t)
	b.register("g")
	b.exec(`CREATE TABLE public.effect (group_name text, partition_name text, seq bigint, PRIMARY KEY (group_name, partition_name, seq))`)
	var pushed, consumed atomic.Int64
	work, ctx := errgroup.WithContext(t.Context())
	for range each {
		work.Go(func() error {
			for {
				n := pushed.Add(1)
				if n > rounds {
					return nil
				}
				if _, err := b.Push(ctx, []queue.PushItem{item(fmt.Sprintf("p%d", rand.IntN(partitions)), fmt.Sprintf("m%d", n))}); err != nil {
					return err
				}
			}
		})
		conn := b.connect()
		work.Go(func() error {
			for consumed.Load() < rounds {
				n, err := consumeInSQL(ctx, conn, "g")
				if err != nil {
					return fmt.Errorf("consuming in SQL: %w", err)
				}
				consumed.Add(int64(n))
			}
			return nil
		})
		work.Go(func() error {
			for consumed.Load() < rounds {
				d, err := b.Pop(ctx, request("g", 1+rand.IntN(5)))
				if err != nil {
					return err
				}
				for _, m := range d.Messages {
					if _, err := b.pool.Exec(ctx, `INSERT INTO public.effect VALUES ('g', $1, $2)`, m.Partition.Name, m.Seq); err != nil {
						return err
					}
				}
				if len(d.Messages) == 0 {
					continue
				}
				results, err := b.Ack(ctx, acks(d, queue.AckCompleted, d.Messages...))
				if err != nil || !results[0].Success {
					return fmt.Errorf("acknowledging: %v: %w", results, err)
				}
				consumed.Add(int64(len(d.Messages)))
			}
			return nil
		})
	}
	require.NoError(t, work.Wait())
	var effects, behind int
	b.scan(`SELECT count(*) FROM public.effect`, nil, &effects)
	b.scan(`SELECT sum(p.last_seq - c.committed) FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id`, nil, &behind)
	require.Equal(t, rounds, effects)
	require.Zero(t, behind)
	require.Zero(t, b.stranded())
	require.Zero(t, b.deadlocks())
}

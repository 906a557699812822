// Package warm prepares connections for the hot verbs before the first request.
//
// The first use of a statement on a connection is many times slower than later uses. Postgres parses
// and plans the statement, compiles each SQL function, plans the statements in the function, and reads
// the catalog into the memory of the session. So each connection runs every hot statement once, on a
// temporary queue in a transaction that is rolled back. No other session sees this queue.
//
// pkg/engine/store imports this package.
package warm

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/ack"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/claim"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlOpenPartitions = sql.Query("engine/store/open_partitions")
	sqlFindPartitions = sql.Query("engine/store/find_partitions")
	sqlJoinGroup      = sql.Query("engine/store/join_group")
	sqlJoinPage       = sql.Query("engine/store/join_page")
	sqlFindGroup      = sql.Query("engine/store/find_group")
	sqlPreflight      = sql.Query("engine/store/preflight")
	sqlClaim          = sql.Query("engine/store/claim")
	sqlLeaseRelease   = sql.Query("engine/store/lease_release")
)

// Pool warms the connections that pool keeps open (MinConns), all at the same time. It stops when ctx
// ends.
func Pool(ctx context.Context, pool *pgxpool.Pool) error {
	conns := make([]*pgxpool.Conn, 0, pool.Config().MinConns)
	defer func() {
		for _, conn := range conns {
			conn.Release()
		}
	}()
	// Pool acquires all connections before it releases the first, so they are different
	// connections.
	for range cap(conns) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	var work errgroup.Group
	for _, conn := range conns {
		work.Go(func() error { return warm(ctx, conn) })
	}
	return work.Wait()
}

// warm runs the hot statements on one connection.
func warm(ctx context.Context, conn *pgxpool.Conn) (err error) {
	b := &pgx.Batch{}
	b.Queue("BEGIN") // prepares BEGIN and COMMIT
	b.Queue("COMMIT")
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback(ctx)) }()
	var w sandbox
	if err := w.open(ctx, tx); err != nil {
		return fmt.Errorf("opening a queue to warm up with: %w", err)
	}
	for _, statements := range []func(*pgx.Batch){w.leased, w.consumed} {
		b := &pgx.Batch{}
		statements(b)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("running the hot statements: %w", err)
		}
	}
	return nil
}

// sandbox is the queue, the partition and the group of one warm-up.
type sandbox struct {
	group     int64
	partition queue.Partition
}

// sandboxGroup is the consumer group of a sandbox.
const sandboxGroup = "warm-up"

// open creates the sandbox. The name of its queue is unique, so warm-ups do not wait for each
// other.
func (w *sandbox) open(ctx context.Context, tx pgx.Tx) error {
	name := "warm-up " + queue.NewID().String()
	var born, queueBorn bool
	p := &w.partition
	err := tx.QueryRow(ctx, sqlOpenPartitions, []string{name}, []string{sandboxGroup}, 60, 1, 0, 0, 0, nil).
		Scan(&p.Queue, &p.Name, &p.QueueKey, &p.Key, (*[16]byte)(&p.ID), &p.Sealed, &p.Bounded, &born, &queueBorn, &p.Epoch)
	if err != nil {
		return err
	}
	err = tx.QueryRow(ctx, sqlJoinGroup, name, sandboxGroup, nil, string(queue.SubscribeAll), nil, nil, nil).Scan(nil, &w.group, nil, nil)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(sqlJoinPage, w.group, 1000, p.Epoch)
	b.Queue(sqlFindGroup, name, sandboxGroup, nil)
	b.Queue(sqlFindPartitions, []int64{p.Key}, [][16]byte{})
	return tx.SendBatch(ctx, b).Close()
}

// leased pushes a message, claims it under a lease and acknowledges it.
func (w *sandbox) leased(b *pgx.Batch) {
	lease := queue.NewID()
	w.push(b)
	b.Queue(claim.SetTimeout, "0")
	b.Queue(sqlPreflight, []int64{w.group}, []int64{0}, []int64{1}, []pgtype.Timestamptz{early}, []pgtype.Timestamptz{early}, []int64{int64(w.partition.Epoch)})
	w.claim(b, pgtype.UUID{Bytes: lease, Valid: true}, 1)
	call := ack.NewCall([]queue.AckItem{{Group: sandboxGroup, LeaseID: lease.String(), Status: queue.AckCompleted}})
	call.Partitions[0], call.Found = &w.partition, []int{0}
	acks := ack.NewFlush([]*ack.Call{call})
	acks.QueueFind(b)
	call.Seqs[0], acks.Alone = 1, true
	acks.Queue(b)
	b.Queue(sqlLeaseRelease, lease)
}

// consumed pushes a message and claims it with autoAck.
func (w *sandbox) consumed(b *pgx.Batch) {
	w.push(b)
	w.claim(b, pgtype.UUID{}, 1)
	w.claim(b, pgtype.UUID{}, 0)
}

// push appends one message and wakes its partition.
func (w *sandbox) push(b *pgx.Batch) {
	call := push.NewCall([]queue.PushItem{{TransactionID: queue.NewID().String(), Payload: []byte("{}")}})
	call.Opened = []*queue.Partition{&w.partition}
	_ = push.NewFlush([]*push.Call{call}).QueueAppend(b, nil) // a new queue seals nothing
	wake.Queue(b, []int64{w.partition.Key})
}

// claim claims from any partition. Without a lease, the claim has autoAck. It fails if the claim does
// not return the expected number of messages, because then the warm-up has not run all statements.
func (w *sandbox) claim(b *pgx.Batch, lease pgtype.UUID, messages int64) {
	b.Queue(sqlClaim, w.group, nil, 1, 1, lease, early, early, true, w.partition.Epoch, 1<<20, true).Exec(func(rows pgconn.CommandTag) error {
		if want := 1 + 2*messages; rows.RowsAffected() != want { // a row each for the claim, a partition, a message
			return fmt.Errorf("a claim returned %d rows and not %d", rows.RowsAffected(), want)
		}
		return nil
	})
}

// early is a scan floor that hides no cursor.
var early = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}

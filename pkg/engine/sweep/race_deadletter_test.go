package sweep

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// Sweeps race with pushes, pops, acks of all statuses, transactions, redrives, purges, deletions and
// seeks. Nothing deadlocks, every cursor with messages is ready, and the counts of redriven messages
// are right.
func TestSweepsRaceWithDeadLettersAndSeeks(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(7))
	r.push("p0", 1)
	r.options("retention_enabled = true, retention_seconds = 2, expire_after_seconds = 1, dead_letter_expired = true, max_deliveries = 3")
	r.backdateInserts("500 ms")
	groups := []string{"g0", "g1", "g2"}
	for _, group := range groups {
		r.pop(group, 1)
	}
	work := newWorkload()
	for worker, group := range groups {
		work.repeatPush(r, worker, 4)
		work.repeat(func(n int) error { return r.popAndSettle(group, n) })
	}
	work.repeat(func(int) error { return r.readAll(`SELECT belfry.redrive_dead_letters(` + randomDeadLetters + `)`) })
	work.repeat(func(int) error { return r.purgeSome() })
	work.repeat(func(int) error {
		return r.readAll(`SELECT belfry.delete_message(m.partition_id, m.transaction_id) FROM (
			SELECT m.partition_id, m.transaction_id FROM belfry.message m ORDER BY random() LIMIT 1) AS m`)
	})
	work.repeat(func(n int) error { return r.seekBack(groups[n%len(groups)]) })
	for _, j := range []job{r.retention(), r.eviction()} {
		work.repeatJob(t.Context(), r.Sweeper, j)
	}
	require.NoError(t, work.Wait())
	require.Zero(t, r.deadlocks())
	var partitions []int64
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT array_agg(p.id) FROM belfry.partition p`).Scan(&partitions))
	require.NoError(t, r.readAll(sql.Query("engine/store/wake"), partitions), "the plain statements above ran no wake")
	for rule, query := range map[string]string{
		"redrives": `SELECT count(*) FROM belfry.cursor c WHERE coalesce(c.redrives, 0) <>
			(SELECT count(*) FROM belfry.redrive d WHERE d.partition_id = c.partition_id AND d.group_id = c.group_id)`,
		"not ready": `SELECT count(*) FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
			WHERE c.ready_at IS NULL AND (c.committed < p.last_seq OR c.redrives > 0)`,
		"stored": `SELECT count(*) FROM belfry.partition p WHERE p.last_seq - p.trimmed - p.holes <>
			(SELECT count(*) FROM belfry.message m WHERE m.partition_id = p.id)`,
		"messages": `SELECT count(*) FROM belfry.redrive d WHERE NOT EXISTS
			(SELECT 1 FROM belfry.message m WHERE m.partition_id = d.partition_id AND m.seq = d.seq)`,
	} {
		require.Zero(t, r.number(query), rule)
	}
}

const randomDeadLetters = `ARRAY (SELECT d.id FROM belfry.dead_letter d ORDER BY random() LIMIT 20)`

// readAll runs a statement and reads every row.
func (r *fixture) readAll(query string, args ...any) error {
	rows, err := r.pool.Query(r.t.Context(), query, args...)
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// popAndSettle pops messages, acks them with random statuses, in a transaction each third time, and
// releases the lease.
func (r *fixture) popAndSettle(group string, n int) error {
	ctx := r.t.Context()
	d, err := r.store.Pop(ctx, &queue.PopRequest{Queue: "q", Group: group, Batch: 5, Partitions: 2, AutoAck: n%8 == 7})
	if err != nil || d.LeaseID.IsZero() {
		return err
	}
	statuses := []queue.AckStatus{queue.AckCompleted, queue.AckFailed, queue.AckDead, queue.AckRetry}
	items := ackItems(&d, group, func() queue.AckStatus { return statuses[rand.IntN(len(statuses))] })
	if n%3 == 0 {
		tx := &queue.Transaction{RequiredLeases: []string{d.LeaseID.String()}}
		for i := range items {
			tx.Operations = append(tx.Operations, queue.Operation{Ack: &items[i]})
		}
		tx.Operations = append(tx.Operations, queue.Operation{Push: &queue.PushItem{
			Queue: "q", Partition: "p0", TransactionID: fmt.Sprint("t ", group, " ", n), Payload: []byte(`1`),
		}})
		_, err = r.store.Transact(ctx, tx)
	} else {
		_, err = r.store.Ack(ctx, items)
	}
	if err == nil {
		err = r.store.Release(ctx, d.LeaseID)
	}
	return err
}

// purgeSome purges random dead letters.
func (r *fixture) purgeSome() error {
	var ids []int64
	var epoch int64
	if err := r.pool.QueryRow(r.t.Context(), `SELECT belfry.epoch(), `+randomDeadLetters).Scan(&epoch, &ids); err != nil {
		return err
	}
	_, err := r.pool.Exec(r.t.Context(), sql.Query("engine/deadletter/delete"), ids, epoch)
	return err
}

// seekBack moves a group back by up to a second, then pauses.
func (r *fixture) seekBack(group string) error {
	const all = `(SELECT array_agg(p.id ORDER BY p.id) FROM belfry.partition p)`
	to := time.Now().Add(-time.Duration(rand.IntN(1000)) * time.Millisecond)
	err := r.readAll(`SELECT belfry.seek_cursors(`+all+`, (SELECT g.id FROM belfry.consumer_group g WHERE g.name = $1), $2)`, group, to)
	if err != nil {
		return err
	}
	return r.readAll(`SELECT pg_sleep(0.05)`)
}

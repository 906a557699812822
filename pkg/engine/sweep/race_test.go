package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// workload runs functions concurrently and repeatedly until a point in time.
type workload struct {
	errgroup.Group
	end time.Time
}

func newWorkload() *workload { return &workload{end: time.Now().Add(4 * time.Second)} }

// repeat calls do with 0, 1, ... until the workload ends or do fails.
func (w *workload) repeat(do func(n int) error) {
	w.Go(func() error {
		for n := 0; time.Now().Before(w.end); n++ {
			if err := do(n); err != nil {
				return err
			}
		}
		return nil
	})
}

// repeatJob repeats a sweep without a lease on its job.
func (w *workload) repeatJob(ctx context.Context, s *Sweeper, j job) {
	w.repeat(func(int) error {
		if _, err := j.needed(ctx); err != nil {
			return err
		}
		return j.run(ctx, &jobLease{s: s, job: j.name, renewed: w.end.Add(time.Hour)})
	})
}

// repeatPush repeats a push of five messages to random partitions.
func (w *workload) repeatPush(r *fixture, worker, partitions int) {
	w.repeat(func(n int) error {
		items := make([]queue.PushItem, 5)
		for i := range items {
			items[i] = queue.PushItem{
				Queue: "q", Partition: fmt.Sprint("p", rand.IntN(partitions)), TransactionID: fmt.Sprint(worker, " ", n, " ", i), Payload: []byte(`1`),
			}
		}
		_, err := r.store.Push(r.t.Context(), items)
		return err
	})
}

// ackItems returns one ack for each message of a delivery.
func ackItems(d *queue.Delivery, group string, status func() queue.AckStatus) []queue.AckItem {
	items := make([]queue.AckItem, len(d.Messages))
	for i, m := range d.Messages {
		items[i] = queue.AckItem{
			TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: group, LeaseID: d.LeaseID.String(), Status: status(),
		}
	}
	return items
}

// backdateInserts gives every new message an earlier created_at, so that each rule finds messages.
func (r *fixture) backdateInserts(interval string) {
	r.t.Helper()
	r.exec(`CREATE FUNCTION older() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		NEW.created_at = NEW.created_at - interval '` + interval + `'; RETURN NEW; END $$`)
	r.exec(`CREATE TRIGGER older BEFORE INSERT ON belfry.message FOR EACH ROW EXECUTE FUNCTION older()`)
}

func (r *fixture) deadlocks() int64 {
	r.t.Helper()
	return r.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

// Pushes, pops, acks, new groups and two sweeping instances run at the same time on a few
// partitions. No ack under a live lease misses its message, the invariants hold, every deletion is
// counted once, and no deadlock occurs.
func TestSweepsRaceWithPushesPopsAndAcks(t *testing.T) {
	r := newFixture(t, small(7))
	other, _, _ := newSweeper(enginetest.Pool(t, r.dsn), r.counted, small(5))
	// This store did not deliver the messages, so its acks look them up in the table.
	acker := enginetest.Store(t, r.pool)
	r.push("p0", 1)
	r.options("lease_time = 1, retention_enabled = true, retention_seconds = 2, completed_retention_seconds = 1, max_wait_time_seconds = 1, expire_after_seconds = 1")
	r.backdateInserts("800 ms")

	work := newWorkload()
	for worker := range 3 {
		work.repeatPush(r, worker, 6)
		work.repeat(func(n int) error {
			group := fmt.Sprint("g", worker)
			if n%10 == 9 {
				group = fmt.Sprint("late ", worker, n%50)
			}
			return r.popAndAck(group, acker)
		})
	}
	for _, s := range []*Sweeper{r.Sweeper, other} {
		for _, j := range []job{s.retention(), s.eviction()} {
			work.repeatJob(t.Context(), s, j)
		}
	}
	require.NoError(t, work.Wait())
	require.Zero(t, r.deadlocks())
	r.exec("UPDATE belfry.cursor SET lease_until = now() - interval '1 s', ready_at = now() - interval '1 s' WHERE lease_id IS NOT NULL")
	r.exec("UPDATE belfry.message SET created_at = created_at - interval '1 h'")
	r.sweep(r.eviction())
	r.sweep(r.retention())
	require.Zero(t, r.number("SELECT count(*) FROM belfry.message"))
	n := r.counts()
	require.Equal(t, r.number("SELECT sum(last_seq) FROM belfry.partition"), n.retention+n.completed+n.evicted, "each message is counted once")
	require.Positive(t, n.retention+n.completed+n.evicted)
}

// popAndAck pops messages and acks them through another store. It fails if an ack is refused while
// the lease is live.
func (r *fixture) popAndAck(group string, acker *store.Store) error {
	began := time.Now()
	d, err := r.store.Pop(r.t.Context(), &queue.PopRequest{Queue: "q", Group: group, Batch: 5, Partitions: 2})
	if err != nil {
		return err
	}
	results, err := acker.Ack(r.t.Context(), ackItems(&d, group, func() queue.AckStatus { return queue.AckCompleted }))
	if err != nil {
		return err
	}
	for _, result := range results {
		if !result.Success && time.Since(began) < time.Second {
			return fmt.Errorf("an ack under a live lease was refused: %s", result.Error)
		}
	}
	return nil
}

// Sweeps race with pushes, pops, acks of all statuses, transactions, redrives, purges, deletions,
// moves and seeks. No deadlock occurs, every cursor with messages is ready, and the counts of redriven
// messages are right.
func TestSweepsRaceWithDeadLettersAndSeeks(t *testing.T) {
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
	work.repeat(func(n int) error {
		return r.readAll(`SELECT belfry.move_message(m.partition_id, m.transaction_id, clock_timestamp() + make_interval(secs => $1::int % 3 / 10.0)) FROM (
			SELECT m.partition_id, m.transaction_id FROM belfry.message m ORDER BY random() LIMIT 1) AS m`, n)
	})
	work.repeat(func(n int) error { return r.seekBack(groups[n%len(groups)]) })
	for _, j := range []job{r.retention(), r.eviction()} {
		work.repeatJob(t.Context(), r.Sweeper, j)
	}
	require.NoError(t, work.Wait())
	require.Zero(t, r.deadlocks())
	var partitions []int64
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT array_agg(p.id) FROM belfry.partition p`).Scan(&partitions))
	require.NoError(t, r.readAll(sql.Query("engine/store/wake"), partitions), "the statements above ran no wake")
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

// popAndSettle pops messages, acks them with random statuses, and releases the lease. Every third
// call acks in a transaction.
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

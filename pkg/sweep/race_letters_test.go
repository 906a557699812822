package sweep

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// Pushes, pops, acks that fail or bury, transactions, sweeps, and whatever an
// operator does to messages and dead letters: nothing deadlocks, no cursor is left
// asleep, and the counts of what was redriven are right.
func TestVerbsForMessagesRaceWithEverything(t *testing.T) {
	t.Parallel()
	r := newRoom(t, small(7))
	r.push("p0", 1)
	r.options("retention_enabled = true, retention_seconds = 2, expire_after_seconds = 1, dead_letter_expired = true, max_deliveries = 3")
	r.exec(`CREATE FUNCTION older() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		NEW.created_at = NEW.created_at - interval '500 ms'; RETURN NEW; END $$`)
	r.exec(`CREATE TRIGGER older BEFORE INSERT ON belfry.message FOR EACH ROW EXECUTE FUNCTION older()`)
	groups := []string{"g0", "g1", "g2"}
	for _, group := range groups {
		r.pop(group, 1)
	}
	var work errgroup.Group
	end := time.Now().Add(4 * time.Second)
	always := func(do func(n int) error) {
		work.Go(func() error {
			for n := 0; time.Now().Before(end); n++ {
				if err := do(n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	// run is a statement of which every row is read.
	run := func(query string, args ...any) error {
		rows, err := r.pool.Query(t.Context(), query, args...)
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	}
	statuses := []queue.AckStatus{queue.AckCompleted, queue.AckFailed, queue.AckDead, queue.AckRetry}
	for worker := range 3 {
		always(func(n int) error {
			items := make([]queue.PushItem, 5)
			for i := range items {
				items[i] = queue.PushItem{Queue: "q", Partition: fmt.Sprint("p", rand.IntN(4)), TransactionID: fmt.Sprint(worker, " ", n, " ", i), Payload: []byte(`1`)}
			}
			_, err := r.store.Push(t.Context(), items)
			return err
		})
		always(func(n int) error {
			group := groups[worker]
			d, err := r.store.Pop(t.Context(), &queue.PopRequest{Queue: "q", Group: group, Batch: 5, Partitions: 2, AutoAck: n%8 == 7})
			if err != nil || d.LeaseID.IsZero() {
				return err
			}
			items := make([]queue.AckItem, len(d.Messages))
			tx := &queue.Transaction{RequiredLeases: []string{d.LeaseID.String()}}
			for i, m := range d.Messages {
				items[i] = queue.AckItem{TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: group, LeaseID: d.LeaseID.String(), Status: statuses[rand.IntN(len(statuses))]}
				tx.Operations = append(tx.Operations, queue.Operation{Ack: &items[i]})
			}
			if n%3 == 0 {
				tx.Operations = append(tx.Operations, queue.Operation{Push: &queue.PushItem{Queue: "q", Partition: "p0", TransactionID: fmt.Sprint("t", worker, " ", n), Payload: []byte(`1`)}})
				_, err = r.store.Transact(t.Context(), tx)
			} else {
				_, err = r.store.Ack(t.Context(), items)
			}
			if err == nil {
				err = r.store.Release(t.Context(), d.LeaseID)
			}
			return err
		})
	}
	const some = `ARRAY (SELECT d.id FROM belfry.dead_letter d ORDER BY random() LIMIT 20)`
	always(func(int) error { return run(`SELECT belfry.redrive_dead_letters(` + some + `)`) })
	always(func(int) error {
		var ids []int64
		var life int64
		if err := r.pool.QueryRow(t.Context(), `SELECT belfry.epoch(), `+some).Scan(&life, &ids); err != nil {
			return err
		}
		_, err := r.pool.Exec(t.Context(), sql.Query("deadletter/delete"), ids, life)
		return err
	})
	always(func(int) error {
		return run(`SELECT belfry.delete_message(m.partition_id, m.transaction_id) FROM (
			SELECT m.partition_id, m.transaction_id FROM belfry.message m ORDER BY random() LIMIT 1) AS m`)
	})
	always(func(n int) error {
		const all = `(SELECT array_agg(p.id ORDER BY p.id) FROM belfry.partition p)`
		back := time.Now().Add(-time.Duration(rand.IntN(1000)) * time.Millisecond)
		if err := run(`SELECT belfry.seek_cursors(`+all+`, (SELECT g.id FROM belfry.consumer_group g WHERE g.name = $1), $2)`, groups[n%len(groups)], back); err != nil {
			return err
		}
		return run(`SELECT pg_sleep(0.05)`)
	})
	for _, j := range []job{r.retention(), r.eviction()} {
		always(func(int) error {
			if _, err := j.wanted(t.Context()); err != nil {
				return err
			}
			return j.run(t.Context(), &hold{s: r.Sweeper, job: j.name, since: end})
		})
	}
	require.NoError(t, work.Wait())
	require.Zero(t, r.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
	var partitions []int64
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT array_agg(p.id) FROM belfry.partition p`).Scan(&partitions))
	require.NoError(t, run(sql.Query("store/wake"), partitions), "owed by the statements that stand for their verbs")
	for rule, query := range map[string]string{
		"redrives": `SELECT count(*) FROM belfry.cursor c WHERE coalesce(c.redrives, 0) <>
			(SELECT count(*) FROM belfry.redrive d WHERE d.partition_id = c.partition_id AND d.group_id = c.group_id)`,
		"asleep": `SELECT count(*) FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
			WHERE c.ready_at IS NULL AND (c.committed < p.last_seq OR c.redrives > 0)`,
		"stored": `SELECT count(*) FROM belfry.partition p WHERE p.last_seq - p.trimmed - p.holes <>
			(SELECT count(*) FROM belfry.message m WHERE m.partition_id = p.id)`,
		"messages": `SELECT count(*) FROM belfry.redrive d WHERE NOT EXISTS
			(SELECT 1 FROM belfry.message m WHERE m.partition_id = d.partition_id AND m.seq = d.seq)`,
	} {
		require.Zero(t, r.number(query), rule)
	}
}

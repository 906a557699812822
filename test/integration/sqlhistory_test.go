package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// recorded is a server whose requests are recorded for the checker.
type recorded struct {
	client
	recorder *history.Recorder
}

// noted runs one random transaction with savepoints and records it as a push of its committed messages. used has ids
// that it committed before, by partition. It repeats some of them.
func (r *recorded) noted(ctx context.Context, conn *pgx.Conn, random *rand.Rand, name string, used map[string][]string) error {
	o := r.recorder.Begin(history.Operation{Client: name, Kind: history.Push, Queue: "q", Inbox: true, Outcome: history.Refused})
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for step := range 1 + random.IntN(8) {
			partition := fmt.Sprint("p", random.IntN(4))
			id, again := fmt.Sprintf("%s.%d", name, step), false
			if before := used[partition]; len(before) > 0 && random.IntN(10) == 0 {
				id, again = before[random.IntN(len(before))], true
			}
			inner, err := tx.Begin(ctx) // a savepoint
			if err != nil {
				return err
			}
			statement := `INSERT INTO belfry.inbox (queue, partition, payload, transaction_id) VALUES ('q', $1, '1', $2)`
			if random.IntN(2) == 0 {
				statement = `SELECT belfry.push('q', '1', $1, $2)`
			}
			if _, err := inner.Exec(ctx, statement, partition, id); err != nil {
				return err
			}
			if random.IntN(4) == 0 {
				if err := inner.Rollback(ctx); err != nil {
					return err
				}
				continue
			}
			if err := inner.Commit(ctx); err != nil {
				return err
			}
			o.Items = append(o.Items, history.Item{Partition: partition, TransactionID: id, Duplicate: again})
		}
		if random.IntN(6) == 0 {
			return tx.Rollback(ctx)
		}
		o.Outcome = history.Done
		return nil
	})
	if o.Outcome == history.Refused {
		err = nil // rolled back on purpose, so the commit fails
	}
	r.recorder.End(o)
	if o.Outcome == history.Done {
		for _, item := range o.Items {
			used[item.Partition] = append(used[item.Partition], item.TransactionID)
		}
	}
	return err
}

// pushed pushes one message over HTTP and records it.
func (r *recorded) pushed(partition, id string) {
	r.t.Helper()
	o := r.recorder.Begin(history.Operation{Client: "http", Kind: history.Push, Queue: "q", Outcome: history.Done})
	got := r.pushIDs("q", partition, id)
	o.Items = []history.Item{{Partition: partition, TransactionID: id, MessageID: got[0].MessageID}}
	r.recorder.End(o)
}

// consumed pops once for a group, completes the messages and returns their number.
func (r *recorded) consumed(group string, random *rand.Rand) int {
	r.t.Helper()
	o := r.recorder.Begin(history.Operation{Client: group, Kind: history.Pop, Queue: "q", Group: group, Outcome: history.Done})
	got := r.pop("q", fmt.Sprintf("consumerGroup=%s&batch=%d", group, 1+random.IntN(30)))
	require.Contains(r.t, []int{http.StatusOK, http.StatusNoContent}, got.Status, "%.500s", got.Raw)
	var acks []ackItem
	for _, m := range got.body.Messages {
		o.Items = append(o.Items, history.Item{Partition: m.Partition, TransactionID: m.TransactionID, MessageID: m.ID})
		acks = append(acks, ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: "completed"})
		o.LeaseID = m.LeaseID
	}
	o = r.recorder.End(o)
	if len(acks) == 0 {
		return 0
	}
	a := r.recorder.Begin(history.Operation{Client: group, Kind: history.Ack, Queue: "q", Group: group, LeaseID: o.LeaseID, Outcome: history.Done})
	for i, one := range r.ackBatch(group, acks...).ok(http.StatusOK) {
		item := o.Items[i]
		item.Status, item.Accepted = "completed", one.Success
		a.Items = append(a.Items, item)
	}
	r.recorder.End(a)
	return len(acks)
}

// together runs 100 transactions in 8 sessions, while it pushes over HTTP and consumes for the groups. It returns the error of
// each session.
func (r *recorded) together(seed uint64, random *rand.Rand, groups []string) []error {
	r.t.Helper()
	failures := make([]error, 8)
	var sessions sync.WaitGroup
	var taken atomic.Int64
	for i := range failures {
		conn, own := producer(r.t, r.dsn), rand.New(rand.NewPCG(seed, uint64(i)))
		sessions.Go(func() {
			used := map[string][]string{}
			for n := taken.Add(1); n <= 100 && failures[i] == nil; n = taken.Add(1) {
				failures[i] = r.noted(r.t.Context(), conn, own, fmt.Sprint("t", n), used)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sessions.Wait()
	}()
	for n, busy := 0, true; busy; n++ {
		select {
		case <-ended:
			busy = false
		default:
		}
		r.pushed(fmt.Sprint("p", random.IntN(4)), fmt.Sprint("http", n))
		for _, group := range groups {
			r.consumed(group, random)
		}
	}
	return failures
}

// 100 random transactions of 8 sessions run beside pushes over HTTP to the same partitions, and beside one open
// transaction. The checker judges what two groups consumed and what is stored.
func TestTheCheckerAcceptsProducersInSQL(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	other := startOn(t, dsn)
	r := &recorded{startOn(t, dsn).client(t), history.NewRecorder()}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 99))
	r.pushed("p0", "first")
	groups := []string{"g1", "g2"}
	for _, group := range groups {
		r.consumed(group, random)
	}

	late := r.recorder.Begin(history.Operation{Client: "late", Kind: history.Push, Queue: "q", Inbox: true, Outcome: history.Done})
	open := producer(t, dsn)
	execute(t, open, "BEGIN")
	for n := range 4 {
		partition := fmt.Sprint("p", n)
		execute(t, open, `SELECT belfry.push('q', '1', $1, 'late')`, partition)
		late.Items = append(late.Items, history.Item{Partition: partition, TransactionID: "late"})
	}

	require.NoError(t, errorsOf(r.together(seed, random, groups)))
	// A pop without a wait may run before the wake, so this reads the tables.
	finished := func() (done bool) {
		for _, group := range groups {
			r.consumed(group, random)
		}
		r.scan(t, `SELECT NOT EXISTS (SELECT 1 FROM belfry.inbox) AND NOT EXISTS (
			SELECT 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE c.committed < p.last_seq)`, nil, &done)
		return done
	}
	until(t, "all committed messages are delivered despite the open transaction", finished)
	// The random transactions may not contain a duplicate of an earlier flush.
	again := r.recorder.Begin(history.Operation{Client: "again", Kind: history.Push, Queue: "q", Inbox: true, Outcome: history.Done})
	execute(t, producer(t, dsn), `SELECT belfry.push('q', '1', 'p0', 'first')`)
	again.Items = []history.Item{{Partition: "p0", TransactionID: "first", Duplicate: true}}
	r.recorder.End(again)
	until(t, "the duplicate is sequenced, too", finished)
	var before []int64
	r.scan(t, "SELECT array_agg(p.last_seq ORDER BY p.name) FROM belfry.partition p", nil, &before)
	// The other server stops, whether it is the sequencer or not.
	require.NoError(t, other.stop(t))
	execute(t, open, "COMMIT")
	r.recorder.End(late)
	var rows int
	until(t, "the last transaction is sequenced", func() bool {
		r.scan(t, "SELECT count(*) FROM belfry.message WHERE transaction_id = 'late'", nil, &rows)
		return rows == 4
	})
	until(t, "the last messages are delivered", finished)

	var rejected int
	r.scan(t, "SELECT count(*) FROM belfry.inbox_rejected", nil, &rejected)
	require.Zero(t, rejected, "duplicates are dropped, not rejected")
	state, err := check.ReadState(t.Context(), open, []string{"q"})
	require.NoError(t, err)
	require.Len(t, state.Partitions, 4)
	for i, p := range state.Partitions {
		require.Equal(t, "late", p.Log[len(p.Log)-1].TransactionID, "its message follows the messages delivered before its commit")
		require.Equal(t, before[i]+1, p.LastSeq)
	}
	require.Empty(t, check.Run(r.recorder.Operations(), state, check.Options{}))
}

// errorsOf returns the first error, or nil.
func errorsOf(all []error) error {
	if i := slices.IndexFunc(all, func(err error) bool { return err != nil }); i >= 0 {
		return all[i]
	}
	return nil
}

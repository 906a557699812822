package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// transacted is the outcome of a transaction in the background.
type transacted struct {
	result queue.TransactionResult
	err    error
	tx     *queue.Transaction
	watch  *stopwatch.Stopwatch // since the call
}

func (b *bench) beginTransact(tx *queue.Transaction) <-chan transacted {
	out, got := make(chan transacted, 1), transacted{tx: tx, watch: stopwatch.Start(b.t)}
	go func() {
		got.result, got.err = b.Transact(b.t.Context(), tx)
		out <- got
	}()
	return out
}

// A transaction may wait for a cursor that a SQL consumer has locked, because of an ack or of a
// required lease. Meanwhile it blocks neither pushes to its partitions nor other transactions.
func TestAWaitingTransactionBlocksNoOtherCall(t *testing.T) {
	t.Parallel()
	const transactions = 6 // more transactions than flushes
	for _, by := range []string{"ack", "lease"} {
		for _, ends := range []bool{true, false} {
			t.Run(fmt.Sprintf("by %s, the holder releases the cursor: %v", by, ends), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.register("g")
				b.push("out0", "before")
				other := b.pop(request("g", 1))
				b.push("p", numbered("m", transactions)...)
				d := b.pop(request("g", transactions))
				require.Len(t, d.Messages, transactions)
				release := b.lockRows(`SELECT 1 FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id
					WHERE p.name = 'p' FOR UPDATE OF c`)
				watch := stopwatch.Start(t)
				waiting := make([]<-chan transacted, transactions)
				for i, m := range d.Messages {
					moved := item(fmt.Sprint("out", i), "moved")
					if by == "ack" {
						waiting[i] = b.beginTransact(transaction(moved, unfenced(d, queue.AckCompleted, m)))
					} else {
						waiting[i] = b.beginTransact(transaction(moved, d.LeaseID))
					}
				}
				awaitLockWait(t, b)
				b.push("out0", "after")
				b.applied(transaction(item("elsewhere", "m"), acks(other, queue.AckCompleted, other.Messages...)))
				watch.Within(t, promptly, "the other calls are answered")

				stored := 0
				if ends {
					release()
					stored = transactions
				}
				for _, answer := range waiting {
					got := <-answer
					if ends && got.err != nil && pausedTooLong(got.watch) { // refused before the release
						got.result, got.err = b.Transact(t.Context(), got.tx)
					}
					if ends {
						require.NoError(t, got.err)
						require.True(t, got.result.Applied, got.result.Error)
					} else {
						b.requireHeld(acked{err: got.err})
					}
				}
				var moved int
				b.scan(`SELECT count(*) FROM belfry.message WHERE transaction_id = 'moved'`, nil, &moved)
				require.Equal(t, stored, moved)
				require.Zero(t, b.deadlocks())
			})
		}
	}
}

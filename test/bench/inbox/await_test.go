package inbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

// sqlConsumer is a consumer in SQL that waits with belfry.await.
type sqlConsumer struct {
	*fixture
	conn *pgx.Conn
}

// pop pops and acknowledges one message of a queue in a transaction. If the queue is empty, pop
// registers with belfry.await and returns "".
func (s sqlConsumer) pop(queue string) (id string) {
	s.T.Helper()
	tx, err := s.conn.Begin(s.Ctx)
	require.NoError(s.T, err)
	rows, err := tx.Query(s.Ctx, `SELECT transaction_id, belfry.ack(lease) FROM belfry.pop($1)`, queue)
	require.NoError(s.T, err)
	var acked int
	_, err = pgx.ForEachRow(rows, []any{&id, &acked}, func() error { return nil })
	require.NoError(s.T, err)
	if acked == 0 {
		_, err = tx.Exec(s.Ctx, `SELECT belfry.await($1)`, queue)
		require.NoError(s.T, err)
	}
	require.NoError(s.T, tx.Commit(s.Ctx))
	return id
}

// timeAcks returns the times for n messages. A time starts at the answer to the push and ends when the waiting consumer has
// acknowledged the message.
func (s sqlConsumer) timeAcks(queue string, n int, push func(queue, id string)) *load.Times {
	s.T.Helper()
	took := load.NewTimes()
	for range n {
		require.Empty(s.T, s.pop(queue))
		// The probe for the SQL waiter clears the drained cursor.
		for s.Number("SELECT count(ready_at) FROM belfry.cursor") > 0 {
		}
		s.sent++
		want := fmt.Sprint(s.sent)
		push(queue, want)
		answered := time.Now()
		for id := ""; id != want; id = s.pop(queue) {
			require.Empty(s.T, id)
			_, err := s.conn.WaitForNotification(s.Ctx)
			require.NoError(s.T, err)
		}
		took.Add(max(0, time.Since(answered)))
	}
	return took
}

func TestToWaitingConsumerInSQL(t *testing.T) {
	f := newFixture(t)
	s := sqlConsumer{f, f.Connect()}
	s.timeAcks("s", 10, f.push) // fills caches
	pushed := s.timeAcks("s", *samples, f.push)
	inserted := s.timeAcks("s", *samples, f.insert)
	t.Logf("from the answer of the producer to the commit of the ack: pushed over HTTP p50 %s, p99 %s; inserted p50 %s, p99 %s; %d samples",
		quantile(pushed, 0.5), quantile(pushed, 0.99), quantile(inserted, 0.5), quantile(inserted, 0.99), *samples)
}

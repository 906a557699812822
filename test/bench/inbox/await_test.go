package inbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// sleeper is a consumer in SQL that asks to be told.
type sleeper struct {
	*rig
	conn *pgx.Conn
}

// pop pops and acknowledges one message of a queue in a transaction, or asks to be
// told of one.
func (s sleeper) pop(queue string) (id string) {
	s.t.Helper()
	tx, err := s.conn.Begin(s.ctx)
	require.NoError(s.t, err)
	rows, err := tx.Query(s.ctx, `SELECT transaction_id, belfry.ack(lease) FROM belfry.pop($1)`, queue)
	require.NoError(s.t, err)
	var acked int
	_, err = pgx.ForEachRow(rows, []any{&id, &acked}, func() error { return nil })
	require.NoError(s.t, err)
	if acked == 0 {
		_, err = tx.Exec(s.ctx, `SELECT belfry.await($1)`, queue)
		require.NoError(s.t, err)
	}
	require.NoError(s.t, tx.Commit(s.ctx))
	return id
}

// toWaiting times messages from the answer to their push until a consumer in SQL that
// waited has acknowledged them.
func (s sleeper) toWaiting(queue string, n int, push func(queue, id string)) (took []time.Duration) {
	s.t.Helper()
	for range n {
		require.Empty(s.t, s.pop(queue))
		// What it left is put to sleep by the look that its wish brings about.
		for s.number("SELECT count(ready_at) FROM belfry.cursor") > 0 {
		}
		s.sent++
		want := fmt.Sprint(s.sent)
		push(queue, want)
		answered := time.Now()
		for id := ""; id != want; id = s.pop(queue) {
			require.Empty(s.t, id)
			_, err := s.conn.WaitForNotification(s.ctx)
			require.NoError(s.t, err)
		}
		took = append(took, max(0, time.Since(answered)))
	}
	return took
}

func TestToWaitingConsumerInSQL(t *testing.T) {
	r := newRig(t)
	s := sleeper{r, r.connect()}
	s.toWaiting("s", 10, r.push) // warms up
	pushed := s.toWaiting("s", *samples, r.push)
	inserted := s.toWaiting("s", *samples, r.insert)
	t.Logf("from the answer to the commit of its acknowledgment: pushed over HTTP p50 %s, p99 %s; inserted p50 %s, p99 %s; %d samples",
		quantile(pushed, 50), quantile(pushed, 99), quantile(inserted, 50), quantile(inserted, 99), *samples)
}

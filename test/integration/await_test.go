package integration_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// sqlConsumer is a consumer in SQL that waits for wakes and does not poll.
type sqlConsumer struct {
	t    *testing.T
	conn *pgx.Conn
	// group is its group. pops counts its pops.
	group string
	pops  int
}

func newSQLConsumer(t *testing.T, dsn, group string) *sqlConsumer {
	t.Helper()
	return &sqlConsumer{t: t, conn: producer(t, dsn), group: group}
}

// pop takes and acknowledges one message in a transaction. If it finds no message, it asks for a wake.
func (s *sqlConsumer) pop(queue string) (id string, ok bool) {
	s.t.Helper()
	s.pops++
	tx, err := s.conn.Begin(s.t.Context())
	require.NoError(s.t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(s.t.Context())) }()
	rows, err := tx.Query(s.t.Context(), `SELECT transaction_id, belfry.ack(lease) FROM belfry.pop($1, $2)`, queue, s.group)
	require.NoError(s.t, err)
	var acked int
	_, err = pgx.ForEachRow(rows, []any{&id, &acked}, func() error { return nil })
	require.NoError(s.t, err)
	if acked == 0 {
		_, err = tx.Exec(s.t.Context(), `SELECT belfry.await($1, $2)`, queue, s.group)
		require.NoError(s.t, err)
	}
	require.NoError(s.t, tx.Commit(s.t.Context()))
	return id, acked == 1
}

// sleep waits for the wake.
func (s *sqlConsumer) waitForWake() *pgconn.Notification {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	wake, err := s.conn.WaitForNotification(ctx)
	require.NoError(s.t, err)
	return wake
}

// next waits for a message.
func (s *sqlConsumer) next(queue string) string {
	s.t.Helper()
	for {
		if id, ok := s.pop(queue); ok {
			return id
		}
		s.waitForWake()
	}
}

// drained pops nothing and asks for a wake.
func (s *sqlConsumer) drained(queue string) {
	s.t.Helper()
	_, ok := s.pop(queue)
	require.False(s.t, ok)
}

func TestAConsumerInSQLWaitsWithoutPolling(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c, consumer, other := s.client(t), newSQLConsumer(t, s.dsn, "g"), producer(t, s.dsn)

	consumer.drained("q") // the queue does not exist
	c.pushIDs("q", "", "first")
	consumer.waitForWake()
	require.Equal(t, "first", consumer.next("q"))
	unnecessary := 0
	for _, push := range []func(id string){
		func(id string) { c.pushIDs("q", "", id) },
		func(id string) { c.pushIDs("q", "another partition", id) },
		func(id string) {
			execute(t, other, `INSERT INTO belfry.inbox (queue, payload, transaction_id) VALUES ('q', '1', $1)`, id)
		},
		func(id string) {
			execute(t, other, `SELECT belfry.push('q', '1', transaction_id => $1, delay => '300 ms')`, id)
		},
	} {
		for _, id := range []string{"one", "two"} {
			consumer.drained("q")
			until(t, "the cursor sleeps", func() (asleep bool) {
				s.scan(t, `SELECT count(ready_at) = 0 FROM belfry.cursor`, nil, &asleep)
				return asleep
			})
			push(id)
			consumer.waitForWake()
			before := consumer.pops
			require.Equal(t, id, consumer.next("q"))
			unnecessary += consumer.pops - before - 1
			execute(t, other, `DELETE FROM belfry.message`) // the next message may have the same id
		}
	}
	require.LessOrEqual(t, unnecessary, 2, "unnecessary wakes: the message may have been leased for a moment")
}

// The push arrives while the drained cursor is still marked ready, so that nothing is announced, or between the pop and
// the request for a wake, or at another instance.
func TestAConsumerInSQLIsWokenWheneverThePushHappens(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	one, two := startOn(t, dsn, proven), startOn(t, dsn, proven)
	one.untilProven(t, 0)
	two.untilProven(t, 0)
	consumer, other := newSQLConsumer(t, dsn, "g"), producer(t, dsn)
	for i := range 150 {
		id := fmt.Sprint(i)
		consumer.drained("q")
		switch i % 3 {
		case 0:
			one.client(t).pushIDs("q", "", id)
		case 1:
			two.client(t).pushIDs("q", "", id)
		default:
			execute(t, other, `SELECT belfry.push('q', '1', transaction_id => $1)`, id)
		}
		consumer.waitForWake()
		require.Equal(t, id, consumer.next("q"))
	}
}

// Nothing is announced while another consumer has the message, and nothing when that consumer rolls back.
func TestAConsumerInSQLIsWokenAfterARollback(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c, consumer := s.client(t), newSQLConsumer(t, s.dsn, "__QUEUE_MODE__")
	c.pushIDs("q", "", "before")
	require.Equal(t, "before", consumer.next("q")) // the group exists
	c.pushIDs("q", "", "m")
	tx := s.openPop(t, "q")
	consumer.drained("q")
	consumer.waitForWake() // the message seems to be there
	consumer.drained("q")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, "m", consumer.next("q"))
}

// Requests for wakes are repeated when an instance starts after a time without instances.
func TestAConsumerInSQLOutlivesEveryInstance(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	one, two := startOn(t, dsn, proven), startOn(t, dsn, proven)
	one.untilProven(t, 0)
	two.untilProven(t, 0)
	consumer, other := newSQLConsumer(t, dsn, "g"), producer(t, dsn)
	two.client(t).pushIDs("q", "", "first")
	require.Equal(t, "first", consumer.next("q"))
	consumer.drained("q")
	require.NoError(t, one.stop(t))
	two.client(t).pushIDs("q", "", "second")
	require.Equal(t, "second", consumer.next("q"), "the other instance has the request")

	consumer.drained("q")
	require.NoError(t, two.stop(t))
	startOn(t, dsn, proven)
	for consumer.waitForWake().Channel != "belfry_again" { // both instances announced the message before
	}
	consumer.drained("q")
	execute(t, other, `SELECT belfry.push('q', '1', transaction_id => 'third')`)
	require.Equal(t, "third", consumer.next("q"))
}

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

// sqlConsumer is a consumer in SQL. It waits with belfry.await and does not poll.
type sqlConsumer struct {
	t    *testing.T
	conn *pgx.Conn
	// group is the consumer group. pops counts the calls of pop.
	group string
	pops  int
}

func newSQLConsumer(t *testing.T, dsn, group string) *sqlConsumer {
	t.Helper()
	return &sqlConsumer{t: t, conn: producer(t, dsn), group: group}
}

// pop pops and acknowledges one message in a transaction. If there is no message, it calls belfry.await.
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

// waitForWake waits for a notification of an instance.
func (s *sqlConsumer) waitForWake() *pgconn.Notification {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	wake, err := s.conn.WaitForNotification(ctx)
	require.NoError(s.t, err)
	return wake
}

// next waits for a message and returns its transaction id.
func (s *sqlConsumer) next(queue string) string {
	s.t.Helper()
	for {
		if id, ok := s.pop(queue); ok {
			return id
		}
		s.waitForWake()
	}
}

// drained pops, requires that there is no message, and so calls belfry.await.
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

	consumer.drained("q") // the queue does not exist yet
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
			until(t, "ready_at of the cursor is NULL", func() (asleep bool) {
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
	require.LessOrEqual(t, unnecessary, 2, "too many wakes without a message (2 are allowed: the message may have been leased for a moment)")
}

// The push may happen while the drained cursor is still marked ready, or between the pop and belfry.await, or at another
// instance. The consumer must be woken in each case.
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

// Another consumer holds the message and then rolls back. Neither sends a notification. The waiting consumer must still get
// the message.
func TestAConsumerInSQLIsWokenAfterARollback(t *testing.T) {
	t.Parallel()
	s := start(t, proven)
	s.untilProven(t, 0)
	c, consumer := s.client(t), newSQLConsumer(t, s.dsn, "__QUEUE_MODE__")
	c.pushIDs("q", "", "before")
	require.Equal(t, "before", consumer.next("q")) // now the group exists
	c.pushIDs("q", "", "m")
	tx := s.openPop(t, "q")
	consumer.drained("q")
	consumer.waitForWake() // the instance sees the message, but not that another session holds it
	consumer.drained("q")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, "m", consumer.next("q"))
}

// If all instances stop and a new one starts, it tells the waiting SQL sessions to call belfry.await again.
func TestAConsumerInSQLSurvivesARestartOfAllInstances(t *testing.T) {
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
	require.Equal(t, "second", consumer.next("q"), "the other instance must still know the waiting session")

	consumer.drained("q")
	require.NoError(t, two.stop(t))
	startOn(t, dsn, proven)
	for consumer.waitForWake().Channel != "belfry_again" { // skips the wakes that both instances sent before
	}
	consumer.drained("q")
	execute(t, other, `SELECT belfry.push('q', '1', transaction_id => 'third')`)
	require.Equal(t, "third", consumer.next("q"))
}

package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// A transaction fails if its lease ends between its pop and its ack. now() and
// statement_timestamp() may still be before the end of the lease, as in a long DO block.
func TestAnAckFailsIfItsLeaseEndedInTheSameTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1")
	b.exec(`CREATE TABLE public.effect (n text)`)
	conn := b.connect()
	for _, verb := range []string{`belfry.ack(v_lease)`, `belfry.extend(v_lease, 60)`} {
		tx := b.begin(conn)
		_, err := tx.Exec(t.Context(), `DO $$
			DECLARE v_lease uuid;
			BEGIN
				SELECT p.lease INTO STRICT v_lease FROM belfry.pop('q', 'g') AS p;
				INSERT INTO public.effect VALUES ('done');
				UPDATE belfry.cursor SET lease_until = clock_timestamp() WHERE lease_id = v_lease;
				PERFORM `+verb+`;
			END $$`)
		requireState(t, err, "BF010", "Roll back and pop again")
		require.ErrorIs(t, tx.Commit(t.Context()), pgx.ErrTxCommitRollback)
	}
	var effects int
	b.scan(`SELECT count(*) FROM public.effect`, nil, &effects)
	require.Zero(t, effects)
	require.Equal(t, []string{"1"}, sqlIDs(b.sqlPop(conn, "g", 1, 1)), "the message is due at once")
}

// The error of a second ack mentions that the messages may be acknowledged already.
func TestTheErrorOfASecondAckMentionsTheFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1")
	conn := b.connect()
	popped := b.sqlPop(conn, "g", 1, 1)
	require.Equal(t, 1, b.sqlAck(conn, popped[0].Lease, nil, "completed"))
	_, err := sqlAck(t.Context(), conn, popped[0].Lease, nil, "completed")
	requireState(t, err, "BF010", "unless they were acknowledged")
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Contains(t, pg.Detail, "Either all its messages were acknowledged")
}

// An ack in time stays valid if the lease ends before the commit. No other consumer gets the
// messages before that commit.
func TestAnAckInTimeStaysValidUntilTheCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1", "2")
	conn, another := b.connect(), b.connect()
	popped := b.sqlPop(conn, "g", 2, 1)
	tx := b.begin(conn)
	require.Equal(t, 1, b.sqlAck(tx, popped[0].Lease, []string{popped[0].ID}, "completed"))
	_, err := tx.Exec(t.Context(), `UPDATE belfry.cursor SET lease_until = clock_timestamp(), ready_at = clock_timestamp()`)
	require.NoError(t, err)
	require.Empty(t, b.pop(request("g", 2)).Messages)
	require.Empty(t, b.sqlPop(another, "g", 2, 1))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{"2"}, sqlIDs(b.sqlPop(another, "g", 2, 1)))
}

// An ack or a pop fails if its snapshot is older than the latest change of the cursor. It does
// not touch the lease of another consumer.
func TestAnOldSnapshotIsFenced(t *testing.T) {
	t.Parallel()
	for verb, state := range map[string]string{
		`SELECT belfry.ack($1::uuid)`:                    "40001",
		`SELECT belfry.extend($1::uuid, 60)`:             "BF010", // the lease has ended in the snapshot too
		`SELECT $1::uuid FROM belfry.pop('q', 'g')`:      "40001",
		`SELECT belfry.ack($1::uuid, status => 'retry')`: "40001",
	} {
		b := newBench(t)
		b.register("g")
		b.push("p", "1")
		conn := b.connect()
		popped := b.sqlPop(conn, "g", 1, 1)
		b.endLeases()
		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT`) // takes the snapshot
		require.NoError(t, err)
		other := b.sqlPop(b.connect(), "g", 1, 1)
		require.Len(t, other, 1)
		_, err = tx.Exec(t.Context(), verb, popped[0].Lease)
		requireState(t, err, state, "")
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, 1, b.sqlAck(conn, other[0].Lease, nil, "completed"), "the lease of the other consumer is untouched")
	}
}

// belfry.ack settles one cursor. It refuses a lease of several partitions and changes nothing.
func TestSQLAckRefusesALeaseOfSeveralPartitions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1")
	b.push("other", "2")
	req := request("g", 9)
	req.Partitions = 2
	d := b.pop(req)
	require.Len(t, d.Messages, 2)
	_, err := sqlAck(t.Context(), b.connect(), d.LeaseID.String(), nil, "completed")
	requireState(t, err, "22023", "HTTP API")
	require.Zero(t, b.committed())
}

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func state(code string) error {
	return fmt.Errorf("pushing 3 items: %w", &pgconn.PgError{Severity: "ERROR", Code: code, Message: "the value is out of range"})
}

// refused returns the error of connecting to an address without a server.
func refused(t *testing.T) error {
	t.Helper()
	_, err := pgconn.Connect(t.Context(), "postgres://u:s3cret@"+unusedAddress(t)+"/d?sslmode=disable")
	require.Error(t, err)
	return fmt.Errorf("pushing: %w", err)
}

// received returns the error of reading a message.
func received(message string) error {
	_, err := pgproto3.NewFrontend(strings.NewReader(message), io.Discard).Receive()
	return err
}

func TestWrapChoosesTheCodeBySQLState(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]queue.Code{
		"22001":                queue.CodeInvalid,     // string too long
		"22P05":                queue.CodeInvalid,     // a character the database cannot hold
		"22003":                queue.CodeInvalid,     // number out of range
		"23514":                queue.CodeInvalid,     // check violated
		"23505":                queue.CodeInvalid,     // unique violated
		"54001":                queue.CodeInvalid,     // JSON nested too deeply
		"08006":                queue.CodeUnavailable, // connection failure
		"08P01":                queue.CodeUnavailable,
		"28P01":                queue.CodeUnavailable, // wrong password: no connection is possible
		"3D000":                queue.CodeUnavailable, // no such database: it is being restored
		"53300":                queue.CodeUnavailable, // too many connections
		"53100":                queue.CodeUnavailable, // disk full
		"57014":                queue.CodeUnavailable, // statement timeout
		"57P01":                queue.CodeUnavailable, // shutting down
		"57P02":                queue.CodeUnavailable, // another session crashed
		"57P03":                queue.CodeUnavailable, // starting up
		"58030":                queue.CodeUnavailable, // I/O error
		"40001":                queue.CodeUnavailable, // serialization failure
		"40P01":                queue.CodeUnavailable, // deadlock
		"55P03":                queue.CodeUnavailable, // lock timeout
		"26000":                queue.CodeUnavailable, // prepared in another session
		"42P05":                queue.CodeUnavailable,
		"25006":                queue.CodeUnavailable, // read only: a standby
		"3F000":                queue.CodeUnavailable, // no such schema: it is being restored
		"42P01":                queue.CodeUnavailable, // no such table
		"42883":                queue.CodeUnavailable, // no such function
		"42703":                queue.CodeInternal,    // no such column
		"42501":                queue.CodeInternal,    // insufficient privilege
		"55000":                queue.CodeInternal,
		"25P02":                queue.CodeInternal, // in a failed transaction
		"54000":                queue.CodeInternal,
		"XX000":                queue.CodeInternal,
		"P0001":                queue.CodeInternal,
		postgres.PartitionGone: queue.CodeUnavailable, // after the retries of the store
	} {
		err := postgres.Wrap(state(code))
		require.Equal(t, want, queue.CodeOf(err), code)
		require.Equal(t, code, postgres.SQLState(err), "the cause stays in the chain")
	}
}

func TestWrapChoosesTheCodeOfOtherErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want queue.Code
		lost bool
	}{
		"a deadline":               {context.DeadlineExceeded, queue.CodeUnavailable, true},
		"a cancellation":           {context.Canceled, queue.CodeUnavailable, true},
		"a cut answer":             {io.ErrUnexpectedEOF, queue.CodeUnavailable, true},
		"an end":                   {io.EOF, queue.CodeUnavailable, true},
		"a closed connection":      {net.ErrClosed, queue.CodeUnavailable, true},
		"a network failure":        {&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, queue.CodeUnavailable, true},
		"a name that is not found": {&net.DNSError{Err: "no such host", Name: "db"}, queue.CodeUnavailable, true},
		"a closed pool":            {puddle.ErrClosedPool, queue.CodeUnavailable, true},
		"only lost connections":    {onlyLostConnections(t), queue.CodeUnavailable, true},
		"a cut row":                {(&pgproto3.DataRow{}).Decode([]byte{0, 2}), queue.CodeUnavailable, true},
		"a row of a wrong length":  {(&pgproto3.ReadyForQuery{}).Decode(nil), queue.CodeUnavailable, true},
		"a length below 4":         {received("D\x00\x00\x00\x01"), queue.CodeUnavailable, true},
		"an unknown message":       {received("y\x00\x00\x00\x04"), queue.CodeUnavailable, true},
		"no server":                {refused(t), queue.CodeUnavailable, true},
		"no row":                   {pgx.ErrNoRows, queue.CodeInternal, false},
		"a bug":                    {errors.New("cannot scan"), queue.CodeInternal, false},
	} {
		wrapped := fmt.Errorf("pushing: %w", c.err)
		err := postgres.Wrap(wrapped)
		require.Equal(t, c.want, queue.CodeOf(err), name)
		require.Equal(t, c.lost, postgres.ConnectionLost(wrapped), name)
		require.Equal(t, c.lost, postgres.ConnectionLost(err), "%s, wrapped", name)
		require.ErrorIs(t, err, c.err, name)
		require.Empty(t, postgres.SQLState(err), name)
	}
}

func TestMessagesShowOnlyWhatTheClientMayKnow(t *testing.T) {
	t.Parallel()
	message := func(err error) *queue.Error {
		var coded *queue.Error
		require.ErrorAs(t, postgres.Wrap(err), &coded)
		return coded
	}
	require.Contains(t, message(state("22003")).Message, "the value is out of range", "the client can correct the value")
	internal := message(state("42703"))
	require.Equal(t, "internal error", internal.Message)
	require.Zero(t, internal.RetryAfter)
	for _, err := range []error{state("57P01"), refused(t), context.DeadlineExceeded} {
		away := message(err)
		require.Equal(t, postgres.RetryAfter, away.RetryAfter)
		require.Contains(t, away.Message, "send the request again")
		require.NotContains(t, away.Message, "127.0.0.1")
	}
	for code, reason := range map[string]string{
		"53100": "its disk or its shared memory is full", "53200": "it has no memory left for this", "53300": "it takes no more connections", "25006": "it is read only",
		"28000": "it refuses the login of this server", "28P01": "it refuses the password of this server", "3D000": "it does not exist",
	} {
		require.Equal(t, "the database is not available ("+reason+"); send the request again", message(state(code)).Message)
	}
}

func TestWrapKeepsAnExistingCode(t *testing.T) {
	t.Parallel()
	require.NoError(t, postgres.Wrap(nil))
	coded := fmt.Errorf("configuring: %w", &queue.Error{Code: queue.CodeNotFound, Message: "no such queue", Err: state("57P01")})
	require.Same(t, coded, postgres.Wrap(coded))
	once := postgres.Wrap(state("40001"))
	require.Same(t, once, postgres.Wrap(once))
}

func TestConnectionLostBySQLState(t *testing.T) {
	t.Parallel()
	require.False(t, postgres.ConnectionLost(nil))
	for code, want := range map[string]bool{
		"08006": true, "08003": true, "57P01": true, "57P02": true, "57P03": true,
		"57014": false, "40001": false, "53300": false, "23505": false, "42P01": false,
	} {
		require.Equal(t, want, postgres.ConnectionLost(state(code)), code)
	}
}

func TestSQLStateUnwrapsErrors(t *testing.T) {
	t.Parallel()
	require.Empty(t, postgres.SQLState(nil))
	require.Empty(t, postgres.SQLState(errors.New("ERROR: duplicate key (SQLSTATE 23505)")), "the text of an error is not read")
	require.Equal(t, "23505", postgres.SQLState(errors.Join(io.EOF, state("23505"))))
}

func TestIsNoRows(t *testing.T) {
	t.Parallel()
	require.True(t, postgres.IsNoRows(fmt.Errorf("finding: %w", pgx.ErrNoRows)))
	require.False(t, postgres.IsNoRows(io.EOF))
	require.False(t, postgres.IsNoRows(nil))
}

// onlyLostConnections returns the error of a pool whose every connection turns out to be lost.
func onlyLostConnections(t *testing.T) error {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.DatabaseWithoutSchema(t))
	require.NoError(t, err)
	config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return false, nil }
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Acquire(t.Context())
	require.Error(t, err)
	return err
}

func TestCollectAndScanRow(t *testing.T) {
	pool := open(t, config(database(t)))
	found, err := postgres.Collect(soon(t), pool, `SELECT n FROM generate_series(1, $1::bigint) AS n`, pgx.RowTo[int64], 3)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 3}, found)
	_, err = postgres.Collect(soon(t), pool, `SELECT 1 / 0`, pgx.RowTo[int64])
	require.Equal(t, "22012", postgres.SQLState(err))
	age, none := time.Hour, time.Hour
	var missing *postgres.Seconds
	require.NoError(t, pool.ScanRow(soon(t), []any{(*postgres.Seconds)(&age), (*postgres.Seconds)(&none), &missing},
		`SELECT 1.5::float8, NULL::float8, NULL::float8`))
	require.Equal(t, 1500*time.Millisecond, age)
	require.Zero(t, none)
	require.Nil(t, missing)
	require.True(t, postgres.IsNoRows(pool.ScanRow(soon(t), []any{nil}, `SELECT 1 WHERE false`)))
}

func TestWrapfSaysWhatFailed(t *testing.T) {
	t.Parallel()
	require.NoError(t, postgres.Wrapf(nil, "listing %d things", 3))
	cause := errors.New("x")
	err := postgres.Wrapf(cause, "listing %d things", 3)
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "listing 3 things: x")
	require.Equal(t, queue.CodeInternal, queue.CodeOf(err))
}

// Every text becomes storable. The test includes a text with more new characters than one call can ask for, and a text while the
// database does not answer. JSON keeps its value.
func TestTextsAreMadeStorable(t *testing.T) {
	t.Parallel()
	pool := open(t, config(pgtest.EncodedDatabase(t, "LATIN1")))
	ctx := soon(t)
	require.Equal(t, "aé????", pool.Storable(ctx, "aé日😀\x00\xff"))
	require.Equal(t, `["é\u65e5\ud83d\ude00","\u0000"]`, string(pool.StorableJSON(ctx, []byte(`["é日😀","\u0000"]`))))
	var every []rune
	for c := rune(0x80); c < 0xD800; c++ {
		every = append(every, c)
	}
	stores := func(text string) {
		var same string
		require.NoError(t, pool.QueryRow(ctx, `SELECT $1::text`, text).Scan(&same))
		require.Equal(t, text, same)
	}
	for range 3 {
		text := pool.Storable(ctx, string(every))
		stores(text)
		stores(string(pool.StorableJSON(ctx, []byte(`"`+string(every)+`"`))))
		require.Len(t, []rune(text), len(every))
	}
	require.Equal(t, "öß", pool.Storable(ctx, "öß"))
	pool.Close()
	require.Equal(t, "aéöß??", pool.Storable(ctx, "aéöß日Ё"))
}

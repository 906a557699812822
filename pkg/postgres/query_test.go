package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestCollectAndScanRow(t *testing.T) {
	t.Parallel()
	pool := open(t, config(pgtest.DatabaseWithoutSchema(t)))
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

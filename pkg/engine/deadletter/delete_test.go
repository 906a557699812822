package deadletter_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// While a SQL consumer holds a cursor, the deletion of a message waits. Pushes to the partition go on
// meanwhile.
func TestADeletionThatWaitsBlocksNoPush(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fill(1)
	var partition [16]byte
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT uid FROM belfry.partition`).Scan(&partition))
	consumer, err := r.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() {
		// The test itself rolls back before.
		require.ErrorIs(t, consumer.Rollback(context.WithoutCancel(t.Context())), pgx.ErrTxClosed)
	}()
	_, err = consumer.Exec(t.Context(), `SELECT 1 FROM belfry.cursor FOR NO KEY UPDATE`)
	require.NoError(t, err)

	var deletion errgroup.Group
	var existed bool
	deletion.Go(func() (err error) {
		existed, err = r.Delete(t.Context(), queue.ID(partition), "p1")
		return err
	})
	require.Eventually(t, func() bool {
		var waits bool
		require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits))
		return waits
	}, time.Minute, 5*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = r.pool.Exec(ctx, `SELECT 1 FROM belfry.partition FOR NO KEY UPDATE`)
	require.NoError(t, err, "the lock that a push takes first is free")

	require.NoError(t, consumer.Rollback(t.Context()))
	require.NoError(t, deletion.Wait())
	require.True(t, existed)
}

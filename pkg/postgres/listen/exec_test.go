package listen

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestSendingDoesNotChangeTheSession(t *testing.T) {
	t.Parallel()
	s, err := NewSender(pgtest.Database(t), queue.NewID(), DefaultConfig(), nil, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, s.exec(t.Context(), Channel, []string{"one", "two"}))
	defer func() { s.conn.close(t.Context()) }()
	var commit, name, pid string
	show := `SELECT current_setting('synchronous_commit'), current_setting('application_name'), pg_backend_pid()::text`
	require.NoError(t, s.conn.QueryRow(t.Context(), show).Scan(&commit, &name, &pid))
	require.Equal(t, "on", commit)
	require.Equal(t, "belfry-notify", name)

	require.NoError(t, s.exec(t.Context(), Channel, []string{"three"}))
	var again string
	require.NoError(t, s.conn.QueryRow(t.Context(), show).Scan(&commit, &name, &again))
	require.Equal(t, pid, again, "the connection is kept")
}

// If the primary becomes read only, another server may have become the primary.
func TestAReadOnlyConnectionIsDropped(t *testing.T) {
	t.Parallel()
	calls := 0
	s, err := NewSender(pgtest.Database(t), queue.NewID(), DefaultConfig(), func() { calls++ }, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, s.exec(t.Context(), Channel, []string{"one"}))
	_, err = s.conn.Exec(t.Context(), "SET default_transaction_read_only = on")
	require.NoError(t, err)
	require.ErrorIs(t, s.exec(t.Context(), Channel, []string{"two", "three"}), errReadOnly)
	require.Equal(t, 1, calls)
	require.Nil(t, s.conn)
	require.NoError(t, s.exec(t.Context(), Channel, []string{"two", "three"}))
	require.Equal(t, 1, calls)
	s.conn.close(t.Context())
}

// Postgres keeps the connection open after it refuses a statement. The sender still drops the connection, and does not hang.
func TestARefusedStatementDropsTheConnection(t *testing.T) {
	t.Parallel()
	s, err := NewSender(pgtest.Database(t), queue.NewID(), DefaultConfig(), nil, zap.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, s.exec(t.Context(), Channel, []string{string(make([]byte, 9000))}), "22021")
	require.Nil(t, s.conn)
	require.NoError(t, s.exec(t.Context(), Channel, []string{"one"}))
	s.conn.close(t.Context())
}

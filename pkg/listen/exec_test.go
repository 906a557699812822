package listen

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestSendingChangesNothingOfTheSession(t *testing.T) {
	t.Parallel()
	s, err := NewSender(pgtest.EmptyDatabase(t), queue.NewID(), DefaultConfig(), zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, s.exec(t.Context(), []string{"one", "two"}))
	defer func() { s.line.close(t.Context()) }()
	var commit, name, pid string
	show := `SELECT current_setting('synchronous_commit'), current_setting('application_name'), pg_backend_pid()::text`
	require.NoError(t, s.line.QueryRow(t.Context(), show).Scan(&commit, &name, &pid))
	require.Equal(t, "on", commit)
	require.Equal(t, "belfry-notify", name)

	require.NoError(t, s.exec(t.Context(), []string{"three"}))
	var again string
	require.NoError(t, s.line.QueryRow(t.Context(), show).Scan(&commit, &name, &again))
	require.Equal(t, pid, again, "the connection is kept")
}

// Where the primary became read only under its connections, another one may have taken
// its place.
func TestWhatMayOnlyBeReadIsGivenUp(t *testing.T) {
	t.Parallel()
	s, err := NewSender(pgtest.EmptyDatabase(t), queue.NewID(), DefaultConfig(), zap.NewNop())
	require.NoError(t, err)
	told := 0
	s.OnReadOnly(func() { told++ })
	require.NoError(t, s.exec(t.Context(), []string{"one"}))
	_, err = s.line.Exec(t.Context(), "SET default_transaction_read_only = on")
	require.NoError(t, err)
	require.ErrorIs(t, s.exec(t.Context(), []string{"two", "three"}), errReadOnly)
	require.Equal(t, 1, told)
	require.Nil(t, s.line)
	require.NoError(t, s.exec(t.Context(), []string{"two", "three"}))
	require.Equal(t, 1, told)
	s.line.close(t.Context())
}

// A statement that Postgres refuses leaves the connection open on its side: it is
// given up all the same, without hanging.
func TestAfterARefusalTheConnectionIsMadeAnew(t *testing.T) {
	t.Parallel()
	s, err := NewSender(pgtest.EmptyDatabase(t), queue.NewID(), DefaultConfig(), zap.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, s.exec(t.Context(), []string{string(make([]byte, 9000))}), "22021")
	require.Nil(t, s.line)
	require.NoError(t, s.exec(t.Context(), []string{"one"}))
	s.line.close(t.Context())
}

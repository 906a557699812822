package stats_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/enginetest"
)

// A statement of another program may have data or a password in its text.
func TestTheTextsOfOtherProgramsAreNotShown(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const secretText, placeholder = `SELECT 'hunter2', pg_sleep(600)`, "(statement of another program)"
	want := map[int64]string{}
	for name, text := range map[string]string{
		"belfry": secretText, "belfry-listen": secretText, "belfry migrate": secretText,
		"": placeholder, "shop": placeholder, "belfry-shop": placeholder, "Belfry": placeholder,
	} {
		conn, err := pgx.ConnectConfig(t.Context(), r.conn.Config())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `SELECT set_config('application_name', $1, false)`, name)
		require.NoError(t, err)
		want[int64(conn.PgConn().PID())] = text
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = conn.Exec(context.Background(), secretText) // the end of the test ends it
		}()
		t.Cleanup(func() {
			_, err := r.conn.Exec(context.Background(), `SELECT pg_terminate_backend($1)`, conn.PgConn().PID())
			require.NoError(t, err)
			<-done
		})
	}
	have := map[int64]string{}
	require.Eventually(t, func() bool {
		running, err := r.Statements(t.Context())
		for _, s := range running {
			have[s.PID] = s.Query
		}
		return err != nil || len(have) == len(want)
	}, enginetest.Patience, 100*time.Millisecond)
	require.Equal(t, want, have)
}

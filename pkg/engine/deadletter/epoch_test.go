package deadletter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The epoch changes with every statement, so the ids that one statement found are not valid in the
// next one.
func TestVerbsChangeNothingInAnotherEpoch(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fill(2)
	var partition queue.ID
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT p.uid FROM belfry.partition p WHERE p.name = 'p1'`).Scan((*[16]byte)(&partition)))
	_, err := r.pool.Exec(t.Context(), `CREATE SEQUENCE belfry.test_epochs;
		CREATE OR REPLACE FUNCTION belfry.epoch() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT nextval('belfry.test_epochs') $$`)
	require.NoError(t, err)
	for _, work := range []func() (deadletter.Result, error){
		func() (deadletter.Result, error) { return r.Redrive(t.Context(), named("q", "g"), 0, false) },
		func() (deadletter.Result, error) { return r.Purge(t.Context(), named("q", "g"), false) },
	} {
		done, err := work()
		require.NoError(t, err)
		require.Equal(t, deadletter.Result{Matched: 2, Skipped: 2}, done)
	}
	_, err = r.Retry(t.Context(), partition, "p1", nil)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), err)
	page, err := r.List(t.Context(), named("q", "g"), deadletter.ListKey{}, 10, 0)
	require.NoError(t, err)
	require.Equal(t, int64(2), page.Total)
}

package world

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/principals"
)

// setBackAfterALoss ends the connections of a server and then sets the clock of the server back. The server must not
// suspect new connections because the old ones were silent, so every request must get a connection.
func setBackAfterALoss(t *testing.T, w *World) {
	s := w.servers[0]
	for _, one := range w.servers {
		require.NoError(t, one.setClock(0))
	}
	require.NoError(t, w.Recover(t.Context()))
	ended, err := w.terminate(t.Context(), poolName, maxConnections, rand.New(rand.NewPCG(1, 0)))
	require.NoError(t, err)
	require.Positive(t, ended)
	require.NoError(t, w.Recover(t.Context())) // the servers have noticed the loss
	require.NoError(t, s.setClock(-time.Hour))

	// Each request waits for this lock on a separate connection. These are more connections than an idle server keeps
	// open.
	const requests = poolSize - 2
	tx, err := w.Database().Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // ends the wait of all requests
	_, err = tx.Exec(t.Context(), "LOCK TABLE belfry.trace_name")
	require.NoError(t, err)
	client := &http.Client{Transport: principals.Transport(principals.Operator, &http.Transport{})}
	defer client.CloseIdleConnections()
	answers := make(chan error, requests)
	for range requests {
		go func() {
			_, err := ask(context.WithoutCancel(t.Context()), client, request{http.MethodGet, w.URLs()[0] + "/api/v1/traces/names", "", http.StatusOK})
			answers <- err
		}()
	}
	for waiting := 0; waiting < requests; {
		select {
		case err := <-answers:
			require.FailNow(t, "a request was answered although the lock is held", "%v", err)
		case <-time.After(recoveryPause):
		}
		require.NoError(t, w.Database().QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = $1 AND wait_event_type = 'Lock' AND query LIKE '%belfry.trace_name%'`, poolName).Scan(&waiting))
	}
	require.NoError(t, tx.Rollback(t.Context()))
	for range requests {
		require.NoError(t, <-answers)
	}
}

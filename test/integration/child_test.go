package integration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// child is a server in a separate process, so that tests can kill it. It has the short timeouts that soonSilent sets.
type child struct {
	client
	process *rig.Process
}

// startChild starts a child on dsn. The child listens and notifies through listenDSN.
func startChild(t *testing.T, dsn, listenDSN string) child {
	t.Helper()
	return startChildIn(t, dsn, listenDSN, t.TempDir())
}

// startChildIn starts a child with a directory for its spool.
func startChildIn(t *testing.T, dsn, listenDSN, spoolDir string) child {
	t.Helper()
	started, err := rig.StartServer(t.Context(), dsn, "BELFRY_DATABASE_LISTEN_URL="+listenDSN, "BELFRY_SPOOL_DIR="+spoolDir,
		"BELFRY_LISTEN_CANARY_INTERVAL=2s", "BELFRY_LISTEN_PEER_TIMEOUT=6s")
	require.NoError(t, err)
	s := &server{dsn: dsn, http: documented(t, &http.Transport{}), base: strings.TrimSuffix(started.URL("").String(), "/")}
	t.Cleanup(func() {
		_ = started.Kill() // the process may have ended already
		started.Close()
		s.http.CloseIdleConnections()
	})
	return child{s.client(t), started.Process}
}

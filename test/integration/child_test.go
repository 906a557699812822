package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
)

const (
	// childURL and childListenURL make this test binary a server.
	childURL       = "BELFRY_TEST_CHILD_URL"
	childListenURL = "BELFRY_TEST_CHILD_LISTEN_URL"
	childSpoolDir  = "BELFRY_TEST_CHILD_SPOOL_DIR"
)

// child is a server in its own process, which tests can kill.
type child struct {
	client
	process *os.Process
}

// startChild starts a server on dsn that listens and notifies on listenDSN.
func startChild(t *testing.T, dsn, listenDSN string) child {
	t.Helper()
	return startChildIn(t, dsn, listenDSN, t.TempDir())
}

// startChildIn starts a child with a directory for its spool.
func startChildIn(t *testing.T, dsn, listenDSN, spoolDir string) child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), self)
	cmd.Env = append(os.Environ(), childURL+"="+dsn, childListenURL+"="+listenDSN, childSpoolDir+"="+spoolDir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	s := &server{dsn: dsn, http: documented(t, &http.Transport{})}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		s.http.CloseIdleConnections()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the child did not start")
	s.base = "http://" + strings.TrimSpace(address)
	return child{s.client(t), cmd.Process}
}

// serveChild is the main function of the child process.
func serveChild(dsn, listenDSN string) int {
	cfg := config.Default()
	cfg.Database.URL, cfg.Database.ListenURL = setting.Secret(dsn), setting.Secret(listenDSN)
	cfg.HTTP.Addr, cfg.HTTP.DrainDelay = "127.0.0.1:0", 0
	cfg.Spool.Dir = os.Getenv(childSpoolDir)
	soonSilent(&cfg) // as the server that notices its silence
	log, err := zap.NewProduction(zap.IncreaseLevel(zap.ErrorLevel))
	if err == nil {
		err = app.Run(context.Background(), cfg, log, func(addr net.Addr) { fmt.Println(addr) })
	}
	fmt.Fprintln(os.Stderr, "child:", err)
	return 1
}

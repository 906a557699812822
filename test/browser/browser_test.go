//go:build installed

package browser_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/identity"
	"github.com/belfry-mq/belfry/pkg/secret"
	"github.com/belfry-mq/belfry/pkg/token"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds the start of a server.
const patience = 30 * time.Second

// start starts a server on a new database, stops it at the end of t and returns its URL.
func start(t *testing.T, edit func(*config.Config)) string {
	t.Helper()
	cfg := config.Default()
	cfg.Database.URL = secret.Secret(pgtest.Database(t))
	cfg.Database.PoolSize = 8
	cfg.HTTP.Addr, cfg.HTTP.DrainDelay = "127.0.0.1:0", 0
	cfg.Spool.Dir = t.TempDir()
	edit(&cfg)
	require.NoError(t, cfg.Validate())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- app.Run(ctx, cfg, zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), func(addr net.Addr) { ready <- addr })
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	select {
	case addr := <-ready:
		return "http://" + addr.String()
	case <-time.After(patience):
		require.FailNow(t, "the server was not ready in time")
		return ""
	}
}

// TestDashboard runs the tests of run.mjs, or those whose names match the regular expression BELFRY_BROWSER_ONLY.
func TestDashboard(t *testing.T) {
	modules(t)
	auth := token.DefaultConfig()
	auth.Enabled, auth.Secret = true, secret.Secret(strings.Repeat("k", 40))
	sign := func(subject string, role identity.Role, grants *identity.Grants) string {
		text, err := token.Sign(auth, token.Request{Subject: subject, Role: role, Grants: grants, Lifetime: time.Hour}, token.SecretKey(auth.Secret.Reveal()))
		require.NoError(t, err)
		return text
	}
	run := exec.CommandContext(t.Context(), "node", "run.mjs", os.Getenv("BELFRY_BROWSER_ONLY"))
	run.Env = append(os.Environ(),
		"BELFRY_OPEN="+start(t, func(*config.Config) {}),
		"BELFRY_READ_ONLY="+start(t, func(cfg *config.Config) { cfg.Dashboard.ReadOnly = true }),
		"BELFRY_CLOSED="+start(t, func(cfg *config.Config) { cfg.Auth = auth }),
		"BELFRY_ADMIN="+sign("admin", identity.Admin, nil), "BELFRY_READER="+sign("reader", identity.ReadOnly, nil),
		"BELFRY_GRANTED="+sign("mailer", identity.ReadWrite, &identity.Grants{Read: []string{"shop.mails"}}),
	)
	if os.Getenv("BELFRY_SCREENSHOTS") != "" {
		run.Env = append(run.Env, "BELFRY_SHOP="+startShop(t))
	}
	output, err := run.CombinedOutput()
	t.Logf("%s", output)
	require.NoError(t, err)
}

// startShop starts a server with the shop of belfry demo and returns its URL. The end of t stops them.
func startShop(t *testing.T) string {
	t.Helper()
	url, program := start(t, func(*config.Config) {}), filepath.Join(t.TempDir(), "belfry")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/belfry").CombinedOutput()
	require.NoError(t, err, "%s", output)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	shop := exec.CommandContext(ctx, program, "demo", "--server", url)
	shop.Cancel = func() error { return shop.Process.Signal(os.Interrupt) }
	require.NoError(t, shop.Start())
	t.Cleanup(func() {
		stop()
		_ = shop.Wait() // it was interrupted
	})
	return url
}

// modules installs the modules of package-lock.json, unless they are there.
func modules(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("node_modules/playwright-core"); err == nil {
		return
	}
	output, err := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund").CombinedOutput()
	require.NoError(t, err, "%s", output)
}

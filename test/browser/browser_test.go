//go:build installed

package browser_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/openid"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience limits the start of a server.
const patience = 30 * time.Second

// start starts a server on a new database and returns its URL. The server stops at the end of t. start adds the database to
// known.
func start(t *testing.T, known databases, edit func(*config.Config)) string {
	t.Helper()
	cfg := config.Default()
	cfg.Database.URL = setting.Secret(pgtest.Database(t))
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
		url := "http://" + addr.String()
		known[url] = cfg.Database.URL.Reveal()
		return url
	case <-time.After(patience):
		require.FailNow(t, "the server was not ready in time")
		return ""
	}
}

// databases maps the URL of a server to the URL of its database.
type databases map[string]string

// ServeHTTP runs the SQL in the body of a request. The query names the server whose database is used. The answer is the
// first column of the first row, as text. The JavaScript tests use it because they have no Postgres client.
func (d databases) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	statement, err := io.ReadAll(r.Body)
	if err == nil {
		err = run(r.Context(), w, d[r.URL.Query().Get("server")], string(statement))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func run(ctx context.Context, w io.Writer, dsn, statement string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	results, err := conn.PgConn().Exec(ctx, statement).ReadAll()
	if err == nil && len(results) > 0 {
		if rows := results[len(results)-1].Rows; len(rows) > 0 {
			_, err = w.Write(rows[0][0])
		}
	}
	return err
}

// TestDashboard runs the tests of run.mjs. The regular expression in BELFRY_BROWSER_ONLY selects tests by name.
func TestDashboard(t *testing.T) {
	modules(t)
	known := databases{}
	sql := httptest.NewServer(known)
	t.Cleanup(sql.Close)
	auth := token.DefaultConfig()
	auth.Enabled, auth.Secret = true, setting.Secret(strings.Repeat("k", 40))
	sign := func(subject string, role identity.Role, grants *identity.Grants) string {
		text, err := token.Sign(auth, token.Request{Subject: subject, Role: role, Grants: grants, Lifetime: time.Hour}, token.SecretKey(auth.Secret.Reveal()))
		require.NoError(t, err)
		return text
	}
	tests := exec.CommandContext(t.Context(), "node", "run.mjs", os.Getenv("BELFRY_BROWSER_ONLY"))
	tests.Env = append(os.Environ(), "BELFRY_SQL="+sql.URL,
		"BELFRY_FRESH="+start(t, known, func(*config.Config) {}),
		"BELFRY_OPEN="+start(t, known, func(*config.Config) {}),
		"BELFRY_READ_ONLY="+start(t, known, func(cfg *config.Config) { cfg.Dashboard.ReadOnly = true }),
		"BELFRY_CLOSED="+start(t, known, func(cfg *config.Config) { cfg.Auth = auth }),
		"BELFRY_PROVIDER="+startWithProvider(t, known),
		"BELFRY_ADMIN="+sign("admin", identity.Admin, nil), "BELFRY_READER="+sign("reader", identity.ReadOnly, nil),
		"BELFRY_GRANTED="+sign("mailer", identity.ReadWrite, &identity.Grants{Read: []string{"shop.mails"}}),
	)
	if os.Getenv("BELFRY_SCREENSHOTS") != "" {
		tests.Env = append(tests.Env, "BELFRY_SHOP="+startShop(t, known))
	}
	output, err := tests.CombinedOutput()
	t.Logf("%s", output)
	require.NoError(t, err)
}

// startWithProvider starts a server with an identity provider and returns the URL of the server.
func startWithProvider(t *testing.T, known databases) string {
	t.Helper()
	remote := openid.Start(t)
	return start(t, known, func(cfg *config.Config) {
		cfg.Auth.Enabled, cfg.Auth.Algorithm, cfg.Auth.Issuer, cfg.Auth.Audience = true, token.RS256, remote.URL, "belfry"
		cfg.Auth.JWKSURL, cfg.Auth.ClientID, cfg.Auth.ClientSecret = remote.URL+"/keys", openid.ClientID, openid.ClientSecret
	})
}

// startShop starts a server with the example shop of belfry demo and returns its URL. Both stop at the end of t.
func startShop(t *testing.T, known databases) string {
	t.Helper()
	url, program := start(t, known, func(*config.Config) {}), filepath.Join(t.TempDir(), "belfry")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/belfry").CombinedOutput()
	require.NoError(t, err, "%s", output)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	shop := exec.CommandContext(ctx, program, "demo", "--server", url)
	shop.Cancel = func() error { return shop.Process.Signal(os.Interrupt) }
	require.NoError(t, shop.Start())
	t.Cleanup(func() {
		stop()
		_ = shop.Wait() // the error says that the program was interrupted
	})
	return url
}

// modules installs the modules of package-lock.json if they are missing.
func modules(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("node_modules/playwright-core"); err == nil {
		return
	}
	output, err := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund").CombinedOutput()
	require.NoError(t, err, "%s", output)
}

package main

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// If Postgres refuses the start of a server, the server prints one sentence that says what to do. The sentence has no
// SQLSTATE.
func TestAStartThatPostgresRefusesSaysWhatToDo(t *testing.T) {
	primary := pgtest.OwnCluster(t)
	admin := func(database string, statements ...string) {
		conn, err := pgx.Connect(t.Context(), primary.URL(database))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(t.Context())) }()
		for _, statement := range statements {
			_, err := conn.Exec(t.Context(), statement)
			require.NoError(t, err, statement)
		}
	}
	for _, name := range []string{"fresh", "full", "other", "closed", "readonly", "limited"} {
		require.NoError(t, primary.CreateDatabase(t.Context(), name))
	}
	code, _, stderr := belfry(t, "migrate", "up", "--database-url", primary.URL("full"))
	require.Zero(t, code, stderr)
	admin("postgres",
		"CREATE ROLE plain LOGIN", "CREATE ROLE part LOGIN", "CREATE ROLE nologin", "CREATE ROLE reader LOGIN SUPERUSER", "CREATE ROLE few LOGIN CONNECTION LIMIT 0",
		"ALTER ROLE reader SET default_transaction_read_only = on", "REVOKE CONNECT ON DATABASE closed FROM public",
		"ALTER DATABASE readonly SET default_transaction_read_only = on",
		"CREATE ROLE mixed LOGIN SUPERUSER", "ALTER ROLE mixed IN DATABASE fresh SET default_transaction_read_only = on")
	admin("other", "CREATE SCHEMA belfry")
	admin("full", "GRANT USAGE ON SCHEMA belfry TO part", "GRANT SELECT ON belfry.schema_migrations TO part")
	as := func(role, database string, options ...string) string {
		u, err := url.Parse(primary.URL(database))
		require.NoError(t, err)
		u.User = url.User(role)
		query := u.Query()
		for i := 0; i < len(options); i += 2 {
			query.Set(options[i], options[i+1])
		}
		u.RawQuery = query.Encode()
		return u.String()
	}
	standby := pgtest.OwnCluster(t)
	require.NoError(t, pgtest.Follow(t.Context(), primary, standby))
	for _, c := range []struct {
		name, dsn string
		want      []string
		passes    bool // the server retries until start_timeout, because the cause may be temporary
	}{
		{"no right to create the schema", as("plain", "fresh"), []string{"plain", "GRANT CREATE ON DATABASE fresh TO plain"}, false},
		{"the schema belongs to another role", as("plain", "other"), []string{"plain", "belongs to the role postgres", "GRANT USAGE, CREATE ON SCHEMA belfry TO plain"}, false},
		{"the tables belong to another role", as("plain", "full"), []string{"plain", "belongs to the role postgres", "GRANT USAGE ON SCHEMA belfry TO plain"}, false},
		{"some rights", as("part", "full"), []string{"part", "belongs to the role postgres", "GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.attempt, belfry.audit, "}, false},
		{"a read-only role", as("reader", "fresh"), []string{"default_transaction_read_only", "ALTER ROLE reader RESET"}, false},
		{"a read-only role with an existing schema", as("reader", "full"), []string{"default_transaction_read_only", "ALTER ROLE reader RESET"}, false},
		{"a role that is read-only in this database", as("mixed", "fresh"), []string{"ALTER ROLE mixed IN DATABASE fresh RESET"}, false},
		{"a read-only database", as("postgres", "readonly"), []string{"ALTER DATABASE readonly RESET"}, false},
		{"a read-only URL", as("postgres", "fresh", "default_transaction_read_only", "on"), []string{"take it out of database.url"}, false},
		{"a standby", standby.URL("full"), []string{"is a standby", "primary"}, true},
		{"no database", as("postgres", "missing"), []string{`"missing" does not exist`, "CREATE DATABASE"}, false},
		{"no role", as("missing", "fresh"), []string{`"missing"`, "CREATE ROLE"}, false},
		{"a role without login", as("nologin", "fresh"), []string{`ALTER ROLE "nologin" LOGIN`}, false},
		{"no right to connect", as("plain", "closed"), []string{`GRANT CONNECT ON DATABASE "closed" TO "plain"`}, false},
		{"no connection left", as("few", "limited"), []string{"takes no more connections", "max_connections"}, true},
	} {
		patience := "60s"
		if c.passes {
			patience = "5s"
		}
		t.Setenv("BELFRY_DATABASE_START_TIMEOUT", patience)
		code, _, stderr := belfry(t, "serve", "--http-addr", "127.0.0.1:0", "--log-level", "error", "--database-url", c.dsn)
		require.Equal(t, 1, code, "%s: %s", c.name, stderr)
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		last := lines[len(lines)-1]
		require.True(t, strings.HasPrefix(last, "belfry: "), "%s: %s", c.name, stderr)
		for _, want := range c.want {
			require.Contains(t, last, want, c.name)
		}
		require.NotContains(t, last, "SQLSTATE", c.name)
	}
}

// When a start is refused, the error has the missing GRANT statements. After these statements the server starts with
// the role. A role with the grants of belfry.role_grants('admin') starts too.
func TestGrantsInTheErrorOfARefusedStartAreEnough(t *testing.T) {
	cluster := pgtest.OwnCluster(t)
	require.NoError(t, cluster.CreateDatabase(t.Context(), "full"))
	code, _, stderr := belfry(t, "migrate", "up", "--database-url", cluster.URL("full"))
	require.Zero(t, code, stderr)
	admin, err := pgx.Connect(t.Context(), cluster.URL("full"))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(t.Context())) }()
	exec := func(statement string) {
		_, err := admin.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	exec("CREATE ROLE granted LOGIN; CREATE ROLE member LOGIN; GRANT belfry_admin TO member")
	start := func(role string) error {
		u, err := url.Parse(cluster.URL("full"))
		require.NoError(t, err)
		u.User = url.User(role)
		cfg := config.Default()
		cfg.Database.URL, cfg.HTTP.Addr, cfg.HTTP.DrainDelay = setting.Secret(u.String()), "127.0.0.1:0", 0
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		return app.Run(ctx, cfg, zap.NewNop(), func(net.Addr) { stop() })
	}
	require.NoError(t, start("member"))
	err = start("granted")
	require.ErrorContains(t, err, "let it run GRANT USAGE ON SCHEMA belfry TO granted; ")
	_, statements, _ := strings.Cut(err.Error(), "let it run ")
	exec(statements)
	require.NoError(t, start("granted"))
	exec("REVOKE DELETE ON belfry.trace FROM granted") // the start itself does not need this right
	require.ErrorContains(t, start("granted"), "let it run GRANT DELETE ON belfry.trace TO granted")
}

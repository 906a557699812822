package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// This test requires that each command that opens a connection says in one plain sentence why Postgres refused the
// connection.
func TestEveryCommandSaysWhyPostgresRefusesTheConnection(t *testing.T) {
	good := pgtest.Database(t)
	conn, err := pgx.Connect(t.Context(), good)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE SCHEMA queen; CREATE TABLE queen.messages ()") // a source of the import
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	u, err := url.Parse(good)
	require.NoError(t, err)
	u.User = url.User("nobody_known")
	bad := u.String()
	keys := configFile(t, "encryption: {keys: 'a:"+strings.Repeat("01", 32)+"'}\nhttp: {addr: '127.0.0.1:0'}")
	for _, line := range []string{
		"serve", "migrate up", "migrate status", "migrate plan", "doctor", "token revoked", "token revoke id", "reseal q",
		"attach t --queue q", "detach t", "attachments", "roles", "import queen --from " + good, "import queen --from " + bad,
	} {
		code, stdout, stderr := belfry(t, append(strings.Fields(line), "--database-url", bad, "--config", keys)...)
		require.Equal(t, 1, code, line)
		text := stdout + stderr
		require.Regexp(t, `the database at \S+ refuses the login of the role "nobody_known"`, text, line)
		require.Contains(t, text, `let the role log in`, line)
		for _, raw := range []string{"SQLSTATE", "failed to connect", "tls error", "server error"} {
			require.NotContains(t, text, raw, line)
		}
	}
}

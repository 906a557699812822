package rig

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// Test is a server on a new database, for one test.
type Test struct {
	T *testing.T
	// Ctx limits the time of the test.
	Ctx    context.Context //nolint:containedctx // the context of the whole test
	DSN    string
	Conn   *pgx.Conn
	Server *Server
}

// NewTest starts a server with additional environment variables. The server stops at the end of the test.
func NewTest(t *testing.T, patience time.Duration, env ...string) *Test {
	t.Helper()
	r := &Test{T: t, DSN: pgtest.Database(t)}
	var finish context.CancelFunc
	r.Ctx, finish = context.WithTimeout(t.Context(), patience)
	var err error
	r.Server, err = StartServer(r.Ctx, r.DSN, append(env, "BELFRY_DATABASE_REQUEST_TIMEOUT=1m")...)
	require.NoError(t, err)
	t.Cleanup(func() {
		finish()
		require.NoError(t, r.Server.Stop())
	})
	r.Conn = r.Connect()
	return r
}

// Connect returns a connection to the database. The connection closes at the end of the test.
func (r *Test) Connect() *pgx.Conn {
	r.T.Helper()
	conn, err := pgx.Connect(r.Ctx, r.DSN)
	require.NoError(r.T, err)
	r.T.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs a statement.
func (r *Test) Exec(statement string, args ...any) {
	r.T.Helper()
	_, err := r.Conn.Exec(r.Ctx, statement, args...)
	require.NoError(r.T, err)
}

// Number returns the number that a query returns.
func (r *Test) Number(query string, args ...any) (n int64) {
	r.T.Helper()
	require.NoError(r.T, r.Conn.QueryRow(r.Ctx, query, args...).Scan(&n))
	return n
}

// Post sends a JSON body to a path.
func (r *Test) Post(path, body string) load.Response {
	r.T.Helper()
	resp, err := r.Server.Call(r.Ctx, http.MethodPost, path, jsontext.Value(body), nil)
	require.NoError(r.T, err)
	return resp
}

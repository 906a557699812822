package attach_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is a database with a Client and a connection. Its superuser owns Belfry.
type fixture struct {
	*attach.Client
	t    *testing.T
	conn *pgx.Conn
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return fixtureOn(t, enginetest.Database(t))
}

// hardenedFixture returns a fixture in a database where only the owner may execute a new function.
func hardenedFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	enginetest.Exec(t, conn, `ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`)
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, migrate.New(migrate.Config{URL: dsn}, nil).Up(t.Context()))
	return fixtureOn(t, dsn)
}

func fixtureOn(t *testing.T, dsn string) *fixture {
	t.Helper()
	conn := enginetest.Connect(t, dsn)
	client, err := attach.Open(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	return &fixture{Client: client, t: t, conn: conn}
}

func (p *fixture) exec(statement string, args ...any) {
	p.t.Helper()
	enginetest.Exec(p.t, p.conn, statement, args...)
}

// refused runs a statement that must fail and returns the error of Postgres.
func (p *fixture) refused(statement string) *pgconn.PgError {
	p.t.Helper()
	_, err := p.conn.Exec(p.t.Context(), statement)
	var pg *pgconn.PgError
	require.ErrorAs(p.t, err, &pg, statement)
	return pg
}

func (p *fixture) attach(r attach.Request) {
	p.t.Helper()
	require.NoError(p.t, p.Attach(p.t.Context(), &r))
}

// sent returns the messages written since the last call, as "queue/partition
// payload".
func (p *fixture) sent() []string {
	p.t.Helper()
	rows, err := p.conn.Query(p.t.Context(), `WITH gone AS (DELETE FROM belfry.inbox RETURNING id, queue, partition, payload)
		SELECT queue || '/' || partition || ' ' || payload::jsonb::text FROM gone ORDER BY id`)
	require.NoError(p.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(p.t, err)
	return list
}

func (p *fixture) list() []attach.Attachment {
	p.t.Helper()
	list, err := p.List(p.t.Context())
	require.NoError(p.t, err)
	return list
}

// role creates a role. Its name is unique to the test, because roles belong to the whole cluster.
func (p *fixture) role(name string) string {
	p.t.Helper()
	name += "_of_" + p.conn.Config().Database
	quoted := pgx.Identifier{name}.Sanitize()
	p.exec("CREATE ROLE " + quoted)
	p.t.Cleanup(func() {
		_, err := p.conn.Exec(context.Background(), fmt.Sprintf("RESET ROLE; DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s", quoted))
		require.NoError(p.t, err)
	})
	return quoted
}

// as runs work with the rights of a role.
func (p *fixture) as(role string, work func()) {
	p.t.Helper()
	p.exec("SET ROLE " + role)
	work()
	p.exec("RESET ROLE")
}

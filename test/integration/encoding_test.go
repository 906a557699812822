package integration_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/attach"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// refused runs a statement that Postgres refuses, and returns its SQLSTATE.
func refused(t *testing.T, conn *pgx.Conn, statement string) string {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement)
	require.Error(t, err, statement)
	return postgres.SQLState(err)
}

// In a database with encoding SQL_ASCII any bytes are a text, and UTF-8 is what is read
// from it. What is not is refused to who brings it, and nobody else notices.
func TestADatabaseOfBytes(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EncodedDatabase(t, "SQL_ASCII")
	s := startOn(t, dsn, proven)
	c, conn := s.client(t), producer(t, dsn)
	execute(t, conn, `CREATE TABLE t (a text)`)
	c.pushIDs("日本", "ö", "é")
	require.Equal(t, []string{"é"}, c.popIDs("日本", "consumerGroup=ü"))

	const bytes, invalid = `convert_from('\xe9', 'SQL_ASCII')`, "22021"
	for _, statement := range []string{
		`SELECT belfry.subscribe('日本', ` + bytes + `)`, `SELECT belfry.pop('日本', ` + bytes + `)`, `SELECT belfry.pop(` + bytes + `, 'g')`,
		`SELECT belfry.await('日本', ` + bytes + `)`, `SELECT belfry.ack((SELECT lease FROM belfry.pop('日本', 'g')), status => 'dlq', error => ` + bytes + `)`,
		`SELECT belfry.attach('t', ` + bytes + `)`, `SELECT belfry.attach('t', 'q', condition => 'new.a = ''' || ` + bytes + ` || '''')`,
	} {
		require.Equal(t, invalid, refused(t, conn, statement), statement)
	}
	execute(t, conn, `SELECT belfry.attach('t', 'q', columns => '{a}', condition => 'new.a::int > 0')`)
	execute(t, conn, `SET client_min_messages = error; INSERT INTO t VALUES (`+bytes+`)`)
	desk, err := attach.Open(t.Context(), dsn)
	require.NoError(t, err)
	list, err := desk.List(t.Context())
	require.NoError(t, err)
	require.NoError(t, desk.Close(t.Context()))
	require.Contains(t, list[0].LastFailure, "cannot be read as UTF-8")

	waiting := c.begin(anyOf("日本"))
	execute(t, conn, `INSERT INTO belfry.inbox (queue, payload) VALUES (`+bytes+`, '1'), ('日本', '2')`)
	require.Len(t, waiting.delivery().ok(http.StatusOK).Messages, 1)
	ask[any](c, call{method: http.MethodGet, target: groupsPath}).ok(http.StatusOK)
	require.Empty(t, c.dlq("queue="+url.QueryEscape("日本")).Messages)
}

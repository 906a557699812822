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

// refused runs a statement that Postgres must refuse, and returns its SQLSTATE.
func refused(t *testing.T, conn *pgx.Conn, statement string) string {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement)
	require.Error(t, err, statement)
	return postgres.SQLState(err)
}

// A database with the encoding SQL_ASCII accepts any bytes as text, and Belfry reads UTF-8. Invalid text is refused to
// its sender. Other clients are not affected.
func TestADatabaseWithoutAnEncoding(t *testing.T) {
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
	execute(t, conn, `DO $$ BEGIN EXECUTE format('CREATE TABLE %I (%I text)', 'u' || `+bytes+`, 'v' || `+bytes+`);
		EXECUTE format('CREATE TABLE w (%I text)', 'v' || `+bytes+`); END $$`)
	for _, arguments := range []string{
		`(SELECT oid FROM pg_class WHERE relname LIKE 'u_'), 'q'`, `'w', 'q', columns => ARRAY ['v' || ` + bytes + `]`, `'w', 'q', key => ARRAY ['v' || ` + bytes + `]`,
	} {
		require.Equal(t, invalid, refused(t, conn, `SELECT belfry.attach(`+arguments+`)`), arguments)
	}
	execute(t, conn, `SELECT belfry.attach('t', 'q', columns => '{a}', condition => 'new.a::int > 0')`)
	desk, err := attach.Open(t.Context(), dsn)
	require.NoError(t, err)
	for text, want := range map[string]string{
		bytes:                         "cannot be read as UTF-8",
		`'x' || repeat('ö', 2000)`:    "öö",
		`'x' || repeat('ö', 2) || ''`: `invalid input syntax for type integer: "xöö"`,
	} {
		execute(t, conn, `TRUNCATE belfry.attachment_failure`) // one failure per second is recorded
		execute(t, conn, `INSERT INTO t VALUES (`+text+`)`)
		list, err := desk.List(t.Context())
		require.NoError(t, err)
		require.Contains(t, list[0].LastFailure, want, text)
	}
	// The name was readable when the table was attached.
	execute(t, conn, `TRUNCATE belfry.attachment_failure; DO $$ BEGIN EXECUTE format('ALTER TABLE t RENAME TO %I', 't' || `+bytes+`); END $$`)
	execute(t, conn, `DO $$ BEGIN EXECUTE format('INSERT INTO %I VALUES (''x'')', 't' || `+bytes+`); END $$`)
	list, err := desk.List(t.Context())
	require.NoError(t, err)
	require.Contains(t, list[0].Table, "unreadable")
	require.EqualValues(t, 1, list[0].Failures)
	require.NoError(t, desk.Close(t.Context()))

	waiting := c.begin(anyOf("日本"))
	execute(t, conn, `INSERT INTO belfry.inbox (queue, payload) VALUES (`+bytes+`, '1'), ('日本', '2')`)
	require.Len(t, waiting.delivery().ok(http.StatusOK).Messages, 1)
	ask[any](c, get(groupsPath)).ok(http.StatusOK)
	require.Empty(t, c.dlq("queue="+url.QueryEscape("日本")).Messages)
}

// With a Turkish locale, the uppercase of i is not I.
func TestADatabaseWithATurkishLocale(t *testing.T) {
	t.Parallel()
	dsn := pgtest.TurkishDatabase(t)
	s := startOn(t, dsn, proven)
	c, conn := s.client(t), producer(t, dsn)
	execute(t, conn, `CREATE TABLE t (id int PRIMARY KEY)`)
	execute(t, conn, `SELECT belfry.attach('t', 'INI', '{INSERT,update,Delete}', key => '{id}')`)
	execute(t, conn, `INSERT INTO t VALUES (1)`)
	execute(t, conn, `UPDATE t SET id = 1`)
	execute(t, conn, `DELETE FROM t`)
	for _, event := range []string{"insert", "update", "delete"} {
		change := c.popPartition("INI", "1", "autoAck=true&wait=true&timeout=20000").ok(http.StatusOK)
		require.Contains(t, string(change.Messages[0].Data), event)
	}
	c.pushIDs("ini", "ini", "1")
	require.Equal(t, []string{"1"}, c.popPartition("ini", "ini", "").ok(http.StatusOK).ids())
}

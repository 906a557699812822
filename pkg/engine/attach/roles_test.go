package attach_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// rights returns the tables and views on which a role has any right, and the SECURITY
// DEFINER functions that it may execute.
func (p *fixture) rights(role string) (tables, functions []string) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), `SELECT coalesce(array_agg(r.line ORDER BY r.line), '{}') FROM (
		SELECT c.relname || ': ' || string_agg(w.word, ' ' ORDER BY w.word) AS line
		  FROM pg_class c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS w(word)
		 WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
		   AND CASE WHEN w.word IN ('DELETE', 'TRUNCATE', 'TRIGGER') THEN has_table_privilege($1, c.oid, w.word)
		            ELSE has_any_column_privilege($1, c.oid, w.word) END
		 GROUP BY c.relname) AS r`, role).Scan(&tables))
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), `SELECT coalesce(array_agg(f.proname::text ORDER BY f.proname), '{}') FROM pg_proc f
		WHERE f.pronamespace = 'belfry'::regnamespace AND f.prosecdef AND has_function_privilege($1, f.oid, 'EXECUTE')`, role).Scan(&functions))
	return tables, functions
}

func TestEachRoleHasExactlyItsRights(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	everybody := []string{"await"} // LISTEN and NOTIFY need no right
	consuming := []string{"ack", "await", "extend", "pop", "subscribe"}
	tables, functions := p.rights("belfry_producer")
	require.Equal(t, []string{
		"attachment: INSERT SELECT UPDATE", "attachment_failure: INSERT SELECT", "attachments: SELECT", "grants: SELECT", "inbox: INSERT SELECT", "outbox: INSERT SELECT",
	}, tables)
	require.Equal(t, everybody, functions)
	tables, functions = p.rights("belfry_consumer")
	require.Equal(t, []string{"grants: SELECT"}, tables)
	require.Equal(t, consuming, functions)
	tables, functions = p.rights("belfry_admin")
	require.Equal(t, []string{"ack", "advance_ids", "await", "change_grant", "extend", "pause", "pop", "resume", "subscribe"}, functions)
	var all int
	require.NoError(t, p.conn.QueryRow(t.Context(),
		`SELECT count(*) FROM pg_class WHERE relnamespace = 'belfry'::regnamespace AND relkind IN ('r', 'v')`).Scan(&all))
	require.Len(t, tables, all)
	for _, table := range tables {
		if !strings.HasPrefix(table, "schema_migrations:") {
			require.True(t, strings.HasSuffix(table, ": DELETE INSERT SELECT UPDATE"), table)
		} else {
			require.Equal(t, "schema_migrations: SELECT", table)
		}
	}
	nobody := p.role("nobody")
	tables, functions = p.rights(strings.Trim(nobody, `"`))
	require.Empty(t, tables)
	require.Equal(t, everybody, functions)
	p.as(nobody, func() { require.Equal(t, "42501", p.refused(`SELECT belfry.pop('q', 'g')`).Code) })
}

// Each role can do its own work and not the work of another role, also in a hardened database.
func TestEachRoleDoesOnlyItsOwnWork(t *testing.T) {
	t.Parallel()
	for name, fixture := range map[string]func(*testing.T) *fixture{"default": newFixture, "hardened": hardenedFixture} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doesOnlyItsOwnWork(t, fixture(t))
		})
	}
}

func doesOnlyItsOwnWork(t *testing.T, p *fixture) {
	t.Helper()
	const produce = `INSERT INTO belfry.inbox (queue, payload) VALUES ('q', '{}') RETURNING id`
	p.exec(`SELECT belfry.open_partitions('{q}', '{p}', 300, 3)`)
	p.exec(`SELECT belfry.append(ARRAY[(SELECT id FROM belfry.partition)], '{1}', '{}', '{}', '{1}', '{1}', ARRAY[gen_random_uuid()], '{t}', '{"\"x\""}',
		'{}', '{}', '{}', '{}', true)`)
	for role, allowed := range map[string]string{"producer": "produce", "consumer": "consume", "admin": "produce consume read"} {
		quoted := p.role(role)
		p.exec("GRANT belfry_" + role + " TO " + quoted)
		p.as(quoted, func() {
			p.exec(`SELECT belfry.await('q', 'g')`) // needs no right, like LISTEN and NOTIFY
			for what, statement := range map[string]string{
				"produce":                 produce,
				"produce with a function": `SELECT belfry.push('q', '1', 'p')`,
				"produce many":            `SELECT belfry.push_many('q', ARRAY['1', '2']::json[])`,
				"consume":                 `SELECT belfry.ack(lease) FROM belfry.pop('q', '` + role + `')`,
				"read":                    `SELECT 1 FROM belfry.message, belfry.cursor, belfry.queue, belfry.inbox`,
			} {
				if verb, _, _ := strings.Cut(what, " "); strings.Contains(allowed, verb) {
					p.exec(statement)
				} else {
					require.Equal(t, "42501", p.refused(statement).Code, "%s may not %s", role, what)
				}
			}
			for _, statement := range []string{
				`CREATE TABLE belfry.x (id int)`, `DROP TABLE belfry.message`, `TRUNCATE belfry.message`,
				`CREATE FUNCTION belfry.x() RETURNS int LANGUAGE sql AS 'SELECT 1'`, `UPDATE belfry.schema_migrations SET dirty = true`,
				`ALTER TABLE belfry.inbox DISABLE TRIGGER ALL`,
			} {
				require.Equal(t, "42501", p.refused(statement).Code, "%s: %s", role, statement)
			}
			if role != "admin" {
				for _, statement := range []string{
					`SELECT payload FROM belfry.inbox`, `DELETE FROM belfry.inbox`, `UPDATE belfry.inbox SET queue = 'x'`,
					`SELECT belfry.claim(1, NULL, 1, 1, NULL)`, `SELECT belfry.delete_message(1, 't')`,
					`SELECT belfry.seek_cursors('{1}', 1, 'infinity')`, `DELETE FROM belfry.queue`, `SELECT payload FROM belfry.dead_letter, belfry.message`,
				} {
					require.Equal(t, "42501", p.refused(statement).Code, "%s: %s", role, statement)
				}
			}
		})
	}
}

// SECURITY DEFINER functions ignore the caller's search_path.
func TestTheSearchPathOfAConsumerHasNoEffect(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	var open []string
	require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT coalesce(array_agg(f.proname::text), '{}') FROM pg_proc f
		WHERE f.pronamespace = 'belfry'::regnamespace AND f.prosecdef
		  AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (f.proconfig), false)`).Scan(&open))
	require.Empty(t, open)
}

func TestTheGrantsCanBePrinted(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	statements, err := p.RoleSQL(t.Context())
	require.NoError(t, err)
	p.exec(`REVOKE ALL ON ALL TABLES IN SCHEMA belfry FROM belfry_producer`)
	for _, statement := range statements {
		p.exec(statement)
	}
	tables, _ := p.rights("belfry_producer")
	require.Len(t, tables, 6)
	require.Contains(t, p.refused(`SELECT belfry.role_grants('boss', 'x')`).Hint, "'producer'")

	mine := p.role("My Producer")
	rows, err := p.conn.Query(t.Context(), `SELECT g FROM belfry.role_grants('producer', $1) AS g`, strings.Trim(mine, `"`))
	require.NoError(t, err)
	grants, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, grant := range grants {
		p.exec(grant)
	}
	p.as(mine, func() { p.exec(`INSERT INTO belfry.inbox (queue, payload) VALUES ('q', '{}')`) })
}

// A role without CREATEROLE can migrate up and down. "belfry roles" prints the missing
// statements. The cluster is new and has no roles of Belfry.
func TestMigratingNeedsNoRightToCreateRoles(t *testing.T) {
	t.Parallel()
	dsn := pgtest.OwnCluster(t).URL("postgres")
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	p := &fixture{t: t, conn: conn}
	p.exec(`CREATE ROLE plain; CREATE SCHEMA belfry AUTHORIZATION plain; GRANT CREATE ON DATABASE postgres TO plain`)
	parsed, err := url.Parse(dsn)
	require.NoError(t, err)
	query := parsed.Query()
	query.Set("role", "plain")
	parsed.RawQuery = query.Encode()
	m := migrate.New(migrate.Config{URL: parsed.String()}, nil)
	require.NoError(t, m.Up(t.Context()))
	count := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_roles WHERE rolname LIKE 'belfry\_%'`).Scan(&n))
		return n
	}
	require.Zero(t, count())

	client, err := attach.Open(t.Context(), parsed.String())
	require.NoError(t, err)
	statements, err := client.RoleSQL(t.Context())
	require.NoError(t, err)
	require.NoError(t, client.Close(t.Context()))
	require.Contains(t, statements, "CREATE ROLE belfry_producer NOLOGIN")
	for _, statement := range statements {
		p.exec(statement)
	}
	require.Equal(t, 3, count())
	tables, _ := p.rights("belfry_producer")
	require.Len(t, tables, 6)
	require.NoError(t, m.Down(t.Context(), 1))
	require.NoError(t, m.Up(t.Context()), "with existing roles")
	tables, _ = p.rights("belfry_producer")
	require.Len(t, tables, 6)
}

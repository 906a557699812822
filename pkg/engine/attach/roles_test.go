package attach_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/enginetest"
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
	p := newFixture(t)
	everybody := []string{"await"} // LISTEN and NOTIFY need no right
	consuming := []string{"ack", "await", "extend", "pop", "subscribe"}
	tables, functions := p.rights("belfry_producer")
	require.Equal(t, []string{
		"attachment: INSERT SELECT UPDATE", "attachment_failure: INSERT SELECT", "attachments: SELECT", "grants: SELECT", "inbox: INSERT SELECT", "outbox: INSERT SELECT", "schedules: SELECT",
	}, tables)
	require.Equal(t, []string{"await", "schedule", "unschedule"}, functions)
	tables, functions = p.rights("belfry_consumer")
	require.Equal(t, []string{"grants: SELECT"}, tables)
	require.Equal(t, consuming, functions)
	tables, functions = p.rights("belfry_admin")
	require.Equal(t, []string{"ack", "advance_ids", "await", "change_grant", "close_breaker", "extend", "limit_group", "open_breaker", "pause", "pop", "resume", "schedule", "subscribe", "unblock", "unschedule"}, functions)
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

// Each role can do only its own work, not the work of another role. This also holds in a hardened
// database.
func TestEachRoleDoesOnlyItsOwnWork(t *testing.T) {
	t.Parallel()
	for name, fixture := range map[string]func(*testing.T) *fixture{"default": newFixture, "hardened": hardenedFixture} {
		t.Run(name, func(t *testing.T) {
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
	for role, allowed := range map[string]string{"producer": "produce", "consumer": "consume", "admin": "produce consume read pause"} {
		quoted := p.role(role)
		p.exec("GRANT belfry_" + role + " TO " + quoted)
		p.as(quoted, func() {
			p.exec(`SELECT belfry.await('q', 'g')`) // needs no right, like LISTEN and NOTIFY
			for what, statement := range map[string]string{
				"produce":                 produce,
				"produce with a function": `SELECT belfry.push('q', '1', 'p')`,
				"produce many":            `SELECT belfry.push_many('q', ARRAY['1', '2']::json[])`,
				"consume":                 `SELECT belfry.ack(lease) FROM belfry.pop('q', '` + role + `')`,
				"pause":                   `SELECT belfry.change_pause('q', NULL, NULL, false, NULL)`,
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
			missing, err := postgres.MissingRights(t.Context(), p.conn)
			require.NoError(t, err)
			require.Equal(t, role == "admin", len(missing) == 0, "an admin, and nobody else, has all rights of a server: %s lacks %s", role, missing)
			if role != "admin" {
				for _, statement := range []string{
					`SELECT payload FROM belfry.inbox`, `DELETE FROM belfry.inbox`, `UPDATE belfry.inbox SET queue = 'x'`,
					`SELECT belfry.claim(1, NULL, 1, 1, NULL)`, `SELECT belfry.delete_message(1, 't')`, `SELECT belfry.move_message(1, 't', NULL)`,
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
	p := newFixture(t)
	require.Empty(t, enginetest.Value[[]string](t, p.conn, `SELECT coalesce(array_agg(f.proname::text), '{}') FROM pg_proc f
		WHERE f.pronamespace = 'belfry'::regnamespace AND f.prosecdef
		  AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (f.proconfig), false)`))
}

func TestTheGrantsCanBePrinted(t *testing.T) {
	p := newFixture(t)
	statements, err := p.RoleSQL(t.Context())
	require.NoError(t, err)
	p.exec(`REVOKE ALL ON ALL TABLES IN SCHEMA belfry FROM belfry_producer`)
	for _, statement := range statements {
		p.exec(statement)
	}
	tables, _ := p.rights("belfry_producer")
	require.Len(t, tables, 7)
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
	require.Len(t, tables, 7)
	require.NoError(t, m.Down(t.Context(), 1))
	require.NoError(t, m.Up(t.Context()), "with existing roles")
	tables, _ = p.rights("belfry_producer")
	require.Len(t, tables, 7)
}

// producerWithTable creates a producer role that owns an attached table. The role, the schema and
// the queue have the name name.
func (p *fixture) producerWithTable(name string) (role string) {
	p.t.Helper()
	role = p.role(name)
	p.exec(`CREATE SCHEMA ` + name + ` AUTHORIZATION ` + role + `; GRANT belfry_producer TO ` + role)
	p.as(role, func() {
		p.exec(`CREATE TABLE ` + name + `.t (id int); SELECT belfry.attach('` + name + `.t', '` + name + `', condition => 'new.id <> 7')`)
	})
	return role
}

// count returns the number that a query selects.
func (p *fixture) count(query string, args ...any) (n int) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), query, args...).Scan(&n))
	return n
}

const sqlCountFailures = `SELECT count(*) FROM belfry.attachment_failure WHERE queue = $1`

// addOldFailures records n failures of an attachment, an hour old.
func (p *fixture) addOldFailures(name string, n int) {
	p.t.Helper()
	p.exec(`INSERT INTO belfry.attachment_failure (target, queue, event, code, message, failed_at)
		SELECT $1::text::regclass, $2, 'insert', 'XX000', 'number ' || g, clock_timestamp() - interval '1 hour' + g * interval '1 ms'
		  FROM generate_series(1, $3::int) AS g`, name+".t", name, n)
}

func TestTheLatestHundredFailuresAreKept(t *testing.T) {
	p := newFixture(t)
	owner := p.producerWithTable("mine")
	p.producerWithTable("other")
	p.addOldFailures("other", 3)
	p.addOldFailures("mine", 250)
	require.Equal(t, attach.MaxFailures, p.count(sqlCountFailures, "mine"))
	require.Equal(t, 151, p.count(`SELECT min(substr(message, 8)::int) FROM belfry.attachment_failure WHERE queue = 'mine'`), "the oldest were deleted")

	p.exec(`ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (queue <> 'mine')`)
	p.as(owner, func() { p.exec(`INSERT INTO mine.t VALUES (1)`) })
	require.Equal(t, attach.MaxFailures, p.count(sqlCountFailures, "mine"))
	require.Equal(t, 3, p.count(sqlCountFailures, "other"))
	list := p.list()
	require.Contains(t, list[0].LastFailure, "broken")
	require.EqualValues(t, attach.MaxFailures, list[0].Failures)

	p.exec(`INSERT INTO belfry.attachment_failure (target, queue, event, code, message) VALUES ('other.t', 'other', '', '', repeat('ä', 9000))`)
	require.Equal(t, 2000, p.count(`SELECT max(length(message)) FROM belfry.attachment_failure`), "a long message is cut")
}

// Two transactions with failed messages do not wait for each other, although both delete
// old failures.
func TestRecordingFailuresBlocksNoTransaction(t *testing.T) {
	p := newFixture(t)
	owner := p.producerWithTable("mine")
	p.addOldFailures("mine", 100)
	p.exec(`ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (queue <> 'mine')`)
	other, err := pgx.ConnectConfig(t.Context(), p.conn.Config())
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close(context.Background())) }()
	p.as(owner, func() {
		p.exec(`BEGIN`)
		p.exec(`INSERT INTO mine.t VALUES (1)`)
		enginetest.Exec(t, other, `SET lock_timeout = '10s'; SET ROLE `+owner+`; BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO mine.t VALUES (2)`)
		p.exec(`COMMIT`)
		// The snapshot of the transaction still contains the deleted failures. The statement must
		// not fail because of them.
		enginetest.Exec(t, other, `SELECT pg_sleep(1.1); INSERT INTO mine.t VALUES (3); COMMIT`)
	})
	require.Equal(t, 3, p.count(`SELECT count(*) FROM belfry.attachment_failure WHERE message LIKE '%broken%'`))
	require.Equal(t, 3, p.count(`SELECT count(*) FROM mine.t`))
}

// A lock on the table of failures (VACUUM FULL, REINDEX) delays no statement on an attached table.
func TestRecordingAFailureDoesNotWaitForItsTable(t *testing.T) {
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int); ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (false)`)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	other, err := pgx.ConnectConfig(t.Context(), p.conn.Config())
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close(context.Background())) }()
	enginetest.Exec(t, other, `BEGIN; LOCK TABLE belfry.attachment_failure`)
	p.exec(`SET statement_timeout = '5s'; INSERT INTO t VALUES (1)`)
	enginetest.Exec(t, other, `ROLLBACK`)
	p.exec(`INSERT INTO t VALUES (2)`)
	require.EqualValues(t, 1, p.list()[0].Failures)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	require.Zero(t, p.list()[0].Failures, "the failures belonged to the replaced attachment")
	require.Zero(t, p.count(sqlCountFailures, "q"))
}

// Only the owner of the table, members of the owner, and an admin see an attachment.
func TestAnAttachmentIsShownToTheOwnerAndAdmins(t *testing.T) {
	p := newFixture(t)
	mine, other := p.producerWithTable("mine"), p.producerWithTable("other")
	p.producerWithTable("gone")
	p.addOldFailures("gone", 1)
	member, admin, own, stranger := p.role("member"), p.role("admin"), p.role("own_admin"), p.role("stranger")
	p.exec(`DROP TABLE gone.t; GRANT ` + mine + ` TO ` + member + `; GRANT belfry_admin TO ` + admin + `; GRANT belfry_producer TO ` + stranger)
	rows, err := p.conn.Query(t.Context(), `SELECT g FROM belfry.role_grants('admin', $1) AS g`, strings.Trim(own, `"`))
	require.NoError(t, err)
	grants, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	p.exec(strings.Join(grants, "; "))
	for role, want := range map[string]string{
		mine: "mine", member: "mine", other: "other", stranger: "", admin: "gone mine other", own: "gone mine other",
	} {
		p.as(role, func() {
			for _, from := range []string{"belfry.attachments", "belfry.attachment"} {
				var seen string
				require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(queue, ' ' ORDER BY queue), '') FROM `+from).Scan(&seen))
				require.Equal(t, want, seen, "rows that %s sees in %s", role, from)
			}
			require.Equal(t, strings.Contains(want, "gone"), p.count(sqlCountFailures, "gone") == 1, "failures that %s sees", role)
		})
	}
	// A function with a low COST in a WHERE clause sees no hidden rows either.
	p.as(other, func() {
		p.exec(`CREATE TABLE other.seen (what text);
			CREATE FUNCTION other.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN INSERT INTO other.seen VALUES ($1); RETURN true; END $$;
			SELECT 1 FROM belfry.attachments WHERE other.leak(queue)`)
		require.Equal(t, 1, p.count(`SELECT count(*) FROM other.seen`))
	})
	// The next detach by any role deletes the record of a dropped table.
	p.as(other, func() { p.exec(`SELECT belfry.detach('other.t')`) })
	require.Equal(t, 1, p.count(`SELECT count(*) FROM belfry.attachment`))
	require.Zero(t, p.count(sqlCountFailures, "gone"))
}

// Detach finds triggers without a record (after restoring a dump without the schema of
// Belfry) and renamed triggers.
func TestDetachFindsUnrecordedTriggers(t *testing.T) {
	p := newFixture(t)
	const strange = `it's "a" \ queue, 'x`
	p.exec(`CREATE TABLE t (id int); CREATE TABLE seen (id int);
		CREATE FUNCTION belfry_mine() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO seen VALUES (1); RETURN NULL; END $$;
		CREATE TRIGGER belfry_mine AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION belfry_mine()`)
	p.exec(`CREATE FUNCTION outbox() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO belfry.inbox (queue, partition, payload) SELECT 'plain', 'Default', '{}'; RETURN NULL; END $$;
		CREATE TRIGGER outbox AFTER DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION outbox()`)
	for _, queueName := range []string{"plain", strange, "renamed"} {
		p.attach(attach.Request{Table: "t", Queue: queueName, Payload: attach.PayloadChanges, Strict: queueName == strange})
	}
	p.exec(`DELETE FROM belfry.attachment WHERE queue <> 'plain'`)
	p.exec(`DO $$ BEGIN EXECUTE format('ALTER TRIGGER %I ON t RENAME TO of_mine', 'belfry_' || left(md5('renamed'), 12) || '_insert'); END $$`)
	queues, err := p.Detach(t.Context(), "t", "renamed")
	require.NoError(t, err)
	require.Equal(t, []string{"renamed"}, queues)
	queues, err = p.Detach(t.Context(), "t", "")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"plain", strange}, queues)
	p.exec(`INSERT INTO t VALUES (1); UPDATE t SET id = 2; DELETE FROM t`)
	require.Equal(t, []string{"plain/Default {}"}, p.sent(), "a trigger that the owner of the table wrote stays, even if it writes to the inbox")
	require.Equal(t, 1, p.count(`SELECT count(*) FROM seen`), "another trigger stays")
	require.Equal(t, 1, p.count(`SELECT count(*) FROM pg_proc WHERE proname LIKE 'belfry\_%' AND pronamespace = 'public'::regnamespace`))
	queues, err = p.Detach(t.Context(), "t", "")
	require.NoError(t, err)
	require.Empty(t, queues)
}

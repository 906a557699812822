package attach_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/attach"
)

// producerWithTable creates a producer role with its own attached table. The queue has the
// same name.
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
	t.Parallel()
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
	t.Parallel()
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
		_, err = other.Exec(t.Context(), `SET lock_timeout = '10s'; SET ROLE `+owner+`; BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO mine.t VALUES (2)`)
		require.NoError(t, err)
		p.exec(`COMMIT`)
		// Its snapshot still has the deleted failures. It must not fail for that.
		_, err = other.Exec(t.Context(), `SELECT pg_sleep(1.1); INSERT INTO mine.t VALUES (3); COMMIT`)
		require.NoError(t, err)
	})
	require.Equal(t, 3, p.count(`SELECT count(*) FROM belfry.attachment_failure WHERE message LIKE '%broken%'`))
	require.Equal(t, 3, p.count(`SELECT count(*) FROM mine.t`))
}

// A maintenance of the table of failures (VACUUM FULL, REINDEX) holds up no statement on an attached table.
func TestRecordingAFailureDoesNotWaitForItsTable(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.exec(`CREATE TABLE t (id int); ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (false)`)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	other, err := pgx.ConnectConfig(t.Context(), p.conn.Config())
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close(context.Background())) }()
	_, err = other.Exec(t.Context(), `BEGIN; LOCK TABLE belfry.attachment_failure`)
	require.NoError(t, err)
	p.exec(`SET statement_timeout = '5s'; INSERT INTO t VALUES (1)`)
	_, err = other.Exec(t.Context(), `ROLLBACK`)
	require.NoError(t, err)
	p.exec(`INSERT INTO t VALUES (2)`)
	require.EqualValues(t, 1, p.list()[0].Failures)
	p.attach(attach.Request{Table: "t", Queue: "q"})
	require.Zero(t, p.list()[0].Failures, "they were of the attachment that was replaced")
	require.Zero(t, p.count(sqlCountFailures, "q"))
}

// Only the owner of the table, its members and an admin see an attachment.
func TestAnAttachmentIsShownToTheOwnerAndAdmins(t *testing.T) {
	t.Parallel()
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
	// A cheap function in a condition does not see hidden rows either.
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
	t.Parallel()
	p := newFixture(t)
	const strange = `it's "a" \ queue, 'x`
	p.exec(`CREATE TABLE t (id int); CREATE TABLE seen (id int);
		CREATE FUNCTION belfry_mine() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO seen VALUES (1); RETURN NULL; END $$;
		CREATE TRIGGER belfry_mine AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION belfry_mine()`)
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
	require.Empty(t, p.sent())
	require.Equal(t, 1, p.count(`SELECT count(*) FROM seen`), "another trigger stays")
	require.Equal(t, 1, p.count(`SELECT count(*) FROM pg_proc WHERE proname LIKE 'belfry\_%' AND pronamespace = 'public'::regnamespace`))
	queues, err = p.Detach(t.Context(), "t", "")
	require.NoError(t, err)
	require.Empty(t, queues)
}

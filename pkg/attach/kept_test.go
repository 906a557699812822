package attach_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/attach"
)

// owned makes a producer with a table of its own that is attached to a queue of
// the same name.
func (p *place) owned(name string) (role string) {
	p.t.Helper()
	role = p.role(name)
	p.exec(`CREATE SCHEMA ` + name + ` AUTHORIZATION ` + role + `; GRANT belfry_producer TO ` + role)
	p.as(role, func() {
		p.exec(`CREATE TABLE ` + name + `.t (id int); SELECT belfry.attach('` + name + `.t', '` + name + `', condition => 'new.id <> 7')`)
	})
	return role
}

// number returns what a query counts.
func (p *place) number(query string, args ...any) (n int) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), query, args...).Scan(&n))
	return n
}

const failuresOf = `SELECT count(*) FROM belfry.attachment_failure WHERE queue = $1`

// aged notes failures of an attachment, all but one of them long ago.
func (p *place) aged(name string, n int) {
	p.t.Helper()
	p.exec(`INSERT INTO belfry.attachment_failure (target, queue, event, code, message, failed_at)
		SELECT $1::text::regclass, $2, 'insert', 'XX000', 'number ' || g, clock_timestamp() - interval '1 hour' + g * interval '1 ms'
		  FROM generate_series(1, $3::int) AS g`, name+".t", name, n)
}

func TestTheLatestHundredFailuresAreKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	owner := p.owned("mine")
	p.owned("other")
	p.aged("other", 3)
	p.as(owner, func() { p.aged("mine", 250) })
	require.Equal(t, attach.MaxFailures, p.number(failuresOf, "mine"))
	require.Equal(t, 151, p.number(`SELECT min(substr(message, 8)::int) FROM belfry.attachment_failure WHERE queue = 'mine'`), "the oldest went")

	p.exec(`ALTER TABLE belfry.inbox ADD CONSTRAINT broken CHECK (queue <> 'mine')`)
	p.as(owner, func() { p.exec(`INSERT INTO mine.t VALUES (1)`) })
	require.Equal(t, attach.MaxFailures, p.number(failuresOf, "mine"))
	require.Equal(t, 3, p.number(failuresOf, "other"))
	list := p.list()
	require.Contains(t, list[0].LastFailure, "broken")
	require.EqualValues(t, attach.MaxFailures, list[0].Failures)

	p.exec(`INSERT INTO belfry.attachment_failure (target, queue, event, code, message) VALUES ('other.t', 'other', '', '', repeat('ä', 9000))`)
	require.Equal(t, 2000, p.number(`SELECT max(length(message)) FROM belfry.attachment_failure`), "of a long message there is the beginning")
}

// Two transactions whose messages cannot be written do not wait for each other,
// though both make room for what they note.
func TestKeepingFailuresMakesNobodyWait(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	owner := p.owned("mine")
	p.aged("mine", 100)
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
		// It sees what is gone, and is not refused for it.
		_, err = other.Exec(t.Context(), `SELECT pg_sleep(1.1); INSERT INTO mine.t VALUES (3); COMMIT`)
		require.NoError(t, err)
	})
	require.Equal(t, 3, p.number(`SELECT count(*) FROM belfry.attachment_failure WHERE message LIKE '%broken%'`))
	require.Equal(t, 3, p.number(`SELECT count(*) FROM mine.t`))
}

// The condition and the errors of an attachment are the business of those who own
// the table, and of an admin.
func TestAnAttachmentIsShownToWhoseItIs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mine, other := p.owned("mine"), p.owned("other")
	p.owned("gone")
	p.aged("gone", 1)
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
				require.Equal(t, want, seen, "what %s sees in %s", role, from)
			}
			require.Equal(t, strings.Contains(want, "gone"), p.number(failuresOf, "gone") == 1, "the failures %s sees", role)
		})
	}
	// Nor by a function that tells what it is asked about.
	p.as(other, func() {
		p.exec(`CREATE TABLE other.heard (what text);
			CREATE FUNCTION other.tell(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN INSERT INTO other.heard VALUES ($1); RETURN true; END $$;
			SELECT 1 FROM belfry.attachments WHERE other.tell(queue)`)
		require.Equal(t, 1, p.number(`SELECT count(*) FROM other.heard`))
	})
	// What is noted of a table that is gone goes with the next that is detached,
	// whoever does it.
	p.as(other, func() { p.exec(`SELECT belfry.detach('other.t')`) })
	require.Equal(t, 1, p.number(`SELECT count(*) FROM belfry.attachment`))
	require.Zero(t, p.number(failuresOf, "gone"))
}

// Triggers are found also where nothing is noted of them (a dump without the
// schema of Belfry that was restored), or where they were renamed.
func TestDetachFindsTriggersOfWhichNothingIsNoted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
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
	require.Equal(t, 1, p.number(`SELECT count(*) FROM seen`), "another trigger stays")
	require.Equal(t, 1, p.number(`SELECT count(*) FROM pg_proc WHERE proname LIKE 'belfry\_%' AND pronamespace = 'public'::regnamespace`))
	queues, err = p.Detach(t.Context(), "t", "")
	require.NoError(t, err)
	require.Empty(t, queues)
}

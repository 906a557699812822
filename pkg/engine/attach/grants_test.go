package attach_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// client creates a role that may produce and consume, and returns its quoted name.
func (p *fixture) client(name string) string {
	p.t.Helper()
	role := p.role(name)
	p.exec(`GRANT belfry_producer, belfry_consumer TO ` + role)
	return role
}

// give runs one of the four functions that change grants. role is a quoted name.
func (p *fixture) give(function, role string, patterns ...string) {
	p.t.Helper()
	p.exec(fmt.Sprintf(`SELECT belfry.%s('%s', '%s')`, function, strings.Trim(role, `"`), strings.Join(patterns, `', '`)))
}

// store appends a message to partition p of a queue.
func (p *fixture) store(queue string) {
	p.t.Helper()
	p.exec(`SELECT belfry.open_partitions(ARRAY['` + queue + `'], '{p}', 300, 3)`)
	p.exec(`SELECT belfry.append(ARRAY[(SELECT p.id FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = '` + queue + `')],
		'{1}', '{}', '{}', '{1}', '{1}', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()::text], '{"\"x\""}', '{}', '{}', '{}', '{}', true)`)
}

// other returns a second connection to the database.
func (p *fixture) other() *fixture {
	p.t.Helper()
	conn, err := pgx.ConnectConfig(p.t.Context(), p.conn.Config())
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, conn.Close(context.Background())) })
	return &fixture{t: p.t, conn: conn}
}

// pop pops a message of q.a for a group, and returns the lease.
func (p *fixture) pop(group string) (lease string) {
	p.t.Helper()
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), `SELECT lease::text FROM belfry.pop('q.a', $1)`, group).Scan(&lease))
	return lease
}

// The test runs every function that pushes or consumes: for a role without a grant, for a role with
// a grant, and for an admin.
func TestGrantsCoverEveryFunction(t *testing.T) {
	p := newFixture(t)
	client, admin := p.client("client"), p.role("admin")
	p.exec(`GRANT belfry_admin TO ` + admin)
	produce := []string{
		`INSERT INTO belfry.inbox (queue, payload) VALUES ('q.a', '1')`, `INSERT INTO belfry.outbox (queue, payload) VALUES ('q.a', '1') RETURNING *`,
		`SELECT belfry.push('q.a', '1'::json)`, `SELECT belfry.push('q.a', '1'::jsonb)`, `SELECT belfry.push('q.a', '1')`,
		`SELECT belfry.push_many('q.a', ARRAY['1', '2']::json[])`,
	}
	consume := []string{
		`SELECT belfry.pop('q.a', 'g')`, `SELECT belfry.pop('q.a', 'g', partition => 'p')`, `SELECT belfry.subscribe('q.a', 'g')`,
		`SELECT belfry.await('q.a', 'g')`,
	}
	p.store("q.a")
	every := func(statements []string, code string) {
		t.Helper()
		for _, statement := range statements {
			if code == "" {
				p.exec(statement)
			} else {
				require.Equal(t, code, p.refused(statement).Code, statement)
			}
		}
	}
	p.as(client, func() { every(append(produce, consume...), "") })

	p.give("grant_push", client, "other")
	p.as(client, func() { every(produce, "42501"); every(consume, "") })
	p.give("grant_consume", client, "other")
	p.as(client, func() {
		every(consume, "42501")
		got := p.refused(`SELECT belfry.pop('no such queue', 'g')`)
		want := p.refused(`SELECT belfry.pop('q.a', 'g')`)
		require.Equal(t, strings.ReplaceAll(want.Message, "q.a", "no such queue"), got.Message, "the error does not reveal whether the queue exists")
		require.Contains(t, want.Hint, `belfry.grant_consume('`+strings.Trim(client, `"`)+`', 'q.a', 'g')`)
		require.Contains(t, p.refused(produce[0]).Hint, `belfry.grant_push('`+strings.Trim(client, `"`)+`', 'q.a')`)
	})
	p.as(admin, func() { every(append(produce, consume...), "") })
	p.give("grant_push", client, "q.*")
	p.give("grant_consume", client, "q.*", "g*")
	p.as(client, func() {
		every(append(produce, consume...), "")
		require.Equal(t, "42501", p.refused(`SELECT belfry.pop('q.a', 'other')`).Code, "the group counts too")
		for _, statement := range []string{
			`SELECT belfry.grant_push('x', '*')`, `SELECT belfry.revoke_consume('x', '*')`, `INSERT INTO belfry.queue_grant SELECT * FROM belfry.queue_grant`,
			`SELECT * FROM belfry.queue_grant`, `DROP TRIGGER check_grants ON belfry.inbox`, `ALTER TABLE belfry.inbox DISABLE TRIGGER check_grants`,
		} {
			require.Equal(t, "42501", p.refused(statement).Code, statement)
		}
	})
}

// For a lease of a foreign group, the error is the same as for a lease that never existed.
func TestALeaseOfAForeignGroupIsUnknown(t *testing.T) {
	p := newFixture(t)
	mine, other := p.client("mine"), p.client("other")
	p.store("q.a")
	p.give("grant_consume", mine, "q.a", "mine")
	p.give("grant_consume", other, "q.a", "other")
	p.as(mine, func() {
		lease := p.pop("mine")
		const unknown = "00000000-0000-4000-8000-000000000000"
		p.exec("SET ROLE " + other)
		for _, call := range []string{`SELECT belfry.ack('%s')`, `SELECT belfry.ack('%s', status => 'dlq')`, `SELECT belfry.extend('%s', 60)`} {
			want, got := p.refused(fmt.Sprintf(call, unknown)), p.refused(fmt.Sprintf(call, lease))
			require.Equal(t, strings.ReplaceAll(want.Message, unknown, lease), got.Message, call)
			require.Equal(t, "BF010", got.Code, call)
		}
		p.exec("SET ROLE " + mine)
		p.exec(`SELECT belfry.extend('` + lease + `', 60)`)
		p.exec(`SELECT belfry.ack('` + lease + `')`)
	})
}

// No statement and no setting of a producer avoids the check of grants. A refused statement stores
// no row.
func TestARefusedStatementStoresNothing(t *testing.T) {
	p := newFixture(t)
	client := p.client("client")
	p.give("grant_push", client, "mine")
	p.exec(`GRANT CREATE ON SCHEMA public TO ` + client)
	p.as(client, func() {
		p.exec(`CREATE FUNCTION public.always(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
			CREATE OPERATOR public.~~ (LEFTARG = text, RIGHTARG = text, FUNCTION = public.always)`)
		for _, setting := range []string{
			`belfry.notify = off`, `row_security = off`, `standard_conforming_strings = off`, `search_path = public, belfry, pg_catalog`, `search_path = ''`,
		} {
			p.exec(`SET ` + setting)
			for _, statement := range []string{
				`INSERT INTO belfry.inbox (queue, payload) SELECT CASE n WHEN 5 THEN 'foreign' ELSE 'mine' END, '1'::json
					FROM generate_series(1, 9) AS n`,
				`SELECT belfry.push('mine', '1'), belfry.push('foreign', '1')`,
				`DO $$ BEGIN INSERT INTO belfry.inbox (queue, payload) VALUES ('mine', '1'), ('foreign', '1'); END $$`,
			} {
				got := p.refused(statement)
				require.Equal(t, "42501", got.Code, "%s: %s", setting, statement)
				require.Contains(t, got.Message, "'foreign'", setting)
			}
			p.exec(`INSERT INTO belfry.inbox (queue, payload) VALUES ('mine', '1')`)
		}
		p.exec(`RESET ALL`)
		_, err := p.conn.PgConn().CopyFrom(t.Context(), strings.NewReader("mine\t1\nforeign\t1\n"), `COPY belfry.inbox (queue, payload) FROM STDIN`)
		require.ErrorContains(t, err, "may not push to queue 'foreign'")
		_, err = p.conn.PgConn().CopyFrom(t.Context(), strings.NewReader("mine\t1\n"), `COPY belfry.inbox (queue, payload) FROM STDIN`)
		require.NoError(t, err)
	})
	sent := p.sent()
	require.Len(t, sent, 6)
	require.NotContains(t, strings.Join(sent, " "), "foreign")
}

// A grant to a group role is valid for its members. A revoked grant ends at the next statement.
// After the last grant is revoked, every role is still refused.
func TestAGrantHoldsForMembersUntilItIsRevoked(t *testing.T) {
	p := newFixture(t)
	team, member := p.role("team"), p.client("member")
	p.exec(`GRANT ` + team + ` TO ` + member)
	p.store("q.a")
	p.give("grant_push", team, "q.a")
	p.give("grant_consume", team, "q.a")
	const push, pop = `SELECT belfry.push('q.a', '1')`, `SELECT belfry.pop('q.a', 'g')`
	p.exec(`SET SESSION AUTHORIZATION ` + member)
	p.exec(push)
	p.exec(pop)
	var listed []string
	const list = `SELECT array_agg(concat_ws(' ', kind, queue, consumer_group) ORDER BY kind) FROM belfry.grants`
	require.NoError(t, p.conn.QueryRow(t.Context(), list).Scan(&listed))
	require.Equal(t, []string{"consume q.a *", "push q.a"}, listed)
	p.exec(`RESET SESSION AUTHORIZATION`)
	p.as(p.client("stranger"), func() {
		require.NoError(t, p.conn.QueryRow(t.Context(), list).Scan(&listed))
		require.Empty(t, listed, "a role sees its own grants")
	})
	require.Equal(t, "42704", p.refused(`SELECT belfry.revoke_push('`+strings.Trim(team, `"`)+`', 'q.*')`).Code)
	require.Equal(t, "42704", p.refused(`SELECT belfry.grant_push('no such role', '*')`).Code)

	other := p.other()
	other.exec(`SET SESSION AUTHORIZATION ` + member)
	other.exec(`BEGIN; ` + push)
	p.give("revoke_push", team, "q.a")
	p.give("revoke_consume", team, "q.a")
	require.Equal(t, "42501", other.refused(push).Code, "a grant also ends within an open transaction")
	other.exec(`ROLLBACK`)
	require.Equal(t, "42501", other.refused(pop).Code)
	p.exec(`SELECT belfry.grant_push('belfry_producer', '*'), belfry.grant_consume('belfry_consumer', '*')`)
	p.exec(`SET SESSION AUTHORIZATION ` + member)
	p.exec(push)
	p.exec(pop)
	p.exec(`RESET SESSION AUTHORIZATION`)
}

// Each change of a grant writes an audit row. A failed change writes none.
func TestChangesOfGrantsAreAudited(t *testing.T) {
	p := newFixture(t)
	role := p.client("client")
	p.give("grant_push", role, "a.*")
	p.give("grant_consume", role, "a.*", "g")
	p.give("revoke_push", role, "a.*")
	require.Equal(t, "42704", p.refused(`SELECT belfry.revoke_push('nobody', '*')`).Code)
	require.Equal(t, "t sql grant.give push t a.* * ok, t sql grant.give consume t a.* g ok, t sql grant.revoke push t a.* * ok", enginetest.Value[string](t, p.conn, `SELECT string_agg(concat_ws(' ', subject = session_user, address, action, parameters ->> 'kind',
		parameters ->> 'role' = $1, parameters ->> 'queue', parameters ->> 'consumerGroup', result), ', ' ORDER BY at) FROM belfry.audit`, strings.Trim(role, `"`)))
}

// In a pattern only * has a special meaning. The grants of a token match like the grants in SQL.
func TestAPatternIsLiteralExceptForStars(t *testing.T) {
	p := newFixture(t)
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"orders", "orders", true}, {"orders", "orders.eu", false}, {"orders", "Orders", false},
		{"orders.*", "orders.eu", true}, {"orders.*", "orders.", true}, {"orders.*", "orders", false}, {"orders.*", "ordersXeu", false},
		{"*.eu", "orders.eu", true}, {"a*c", "abbc", true}, {"a*c", "abcd", false}, {"*", "*", true}, {"*", "", true},
		{"a%", "ab", false}, {"a%", "a%", true}, {"a_", "ab", false}, {"a_", "a_", true}, {`a\`, `a\`, true}, {`a\%`, `a\%`, true}, {`a\%`, `a%`, false},
		{`\*`, `\x`, true}, {`\*`, `*`, false}, {"é*", "école", true}, {"*\n", "a\n", true},
	} {
		for _, conforming := range []string{"on", "off"} {
			var got bool
			p.exec(`SET standard_conforming_strings = ` + conforming)
			require.NoError(t, p.conn.QueryRow(t.Context(), `SELECT belfry.matches($1, $2)`, c.name, c.pattern).Scan(&got))
			require.Equal(t, c.want, got, "%q, %q", c.pattern, c.name)
		}
		require.Equal(t, c.want, (&identity.Grants{Push: []string{c.pattern}}).MayPush(c.name), "%q, %q", c.pattern, c.name)
	}
	const seed = 37
	random := rand.New(rand.NewPCG(seed, seed))
	text := func(alphabet string) string {
		b := make([]byte, random.IntN(8))
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	for range 1000 {
		pattern, name := text("aab**%"), text("aab%")
		require.Equal(t, enginetest.Value[bool](t, p.conn, `SELECT belfry.matches($1, $2)`, name, pattern), (&identity.Grants{Push: []string{pattern}}).MayPush(name), "%q, %q", pattern, name)
	}
}

// The messages of an attached table need the grants of the table's owner. The grants of the writing
// role do not count.
func TestAnAttachedTableNeedsTheGrantOfItsOwner(t *testing.T) {
	p := newFixture(t)
	owner, writer := p.client("owner"), p.role("writer")
	p.exec(`CREATE TABLE t (id int); ALTER TABLE t OWNER TO ` + owner + `; GRANT CREATE ON SCHEMA public TO ` + owner + `; GRANT ALL ON t TO ` + writer)
	p.give("grant_push", owner, "orders")
	for _, role := range []string{owner, "NONE"} {
		p.as(role, func() {
			require.Equal(t, "42501", p.refused(`SELECT belfry.attach('t', 'foreign', strict => true)`).Code, role)
		})
	}
	p.as(owner, func() { p.exec(`SELECT belfry.attach('t', 'orders', strict => true)`) })
	p.as(writer, func() { p.exec(`INSERT INTO t VALUES (1)`) })
	require.Len(t, p.sent(), 1)
	p.give("revoke_push", owner, "orders")
	p.as(writer, func() { require.Contains(t, p.refused(`INSERT INTO t VALUES (1)`).Message, strings.Trim(owner, `"`)) })
}

// The first grant to push waits only a few seconds for open transactions that have pushed.
func TestTheFirstGrantGivesUpOnALongTransaction(t *testing.T) {
	p := newFixture(t)
	p.exec(`ALTER FUNCTION belfry.change_grant SET lock_timeout = '10ms'`)
	other := p.other()
	other.exec(`BEGIN; SELECT belfry.push('q', '1')`)
	role := strings.Trim(p.client("client"), `"`)
	require.Equal(t, "55P03", p.refused(`SELECT belfry.grant_push('`+role+`', 'q')`).Code)
	other.exec(`COMMIT`)
	p.give("grant_push", role, "q")
}

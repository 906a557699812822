package integration_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/dashboard/pages"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// strongestLocks lists for each table and view the strongest lock that LOCK TABLE grants to each role. New tables, views
// and roles must be added. belfry_admin has the rights of the server. Every other role may get at most ACCESS SHARE, the
// lock that each reader holds.
const strongestLocks = `
attachment: belfry_admin ACCESS EXCLUSIVE, belfry_producer ACCESS SHARE
attachment_failure: belfry_admin ACCESS EXCLUSIVE, belfry_producer ACCESS SHARE
attachments: belfry_admin ACCESS EXCLUSIVE, belfry_producer ACCESS SHARE
attempt: belfry_admin ACCESS EXCLUSIVE
audit: belfry_admin ACCESS EXCLUSIVE
audit_places: belfry_admin ACCESS EXCLUSIVE
audit_undo: belfry_admin ACCESS EXCLUSIVE
breaker: belfry_admin ACCESS EXCLUSIVE
breaker_count: belfry_admin ACCESS EXCLUSIVE
channel_key: belfry_admin ACCESS EXCLUSIVE
consumer_group: belfry_admin ACCESS EXCLUSIVE
cursor: belfry_admin ACCESS EXCLUSIVE
dead_letter: belfry_admin ACCESS EXCLUSIVE
grants: belfry_admin ACCESS EXCLUSIVE, belfry_consumer ACCESS SHARE, belfry_producer ACCESS SHARE
group_deleted: belfry_admin ACCESS EXCLUSIVE
group_limit: belfry_admin ACCESS EXCLUSIVE
history: belfry_admin ACCESS EXCLUSIVE
history_instance: belfry_admin ACCESS EXCLUSIVE
inbox: belfry_admin ACCESS EXCLUSIVE
inbox_rejected: belfry_admin ACCESS EXCLUSIVE
limit_bucket: belfry_admin ACCESS EXCLUSIVE
limit_number: belfry_admin ACCESS EXCLUSIVE
limit_slot: belfry_admin ACCESS EXCLUSIVE
message: belfry_admin ACCESS EXCLUSIVE
outbox: belfry_admin ACCESS EXCLUSIVE, belfry_producer ACCESS SHARE
partition: belfry_admin ACCESS EXCLUSIVE
queue: belfry_admin ACCESS EXCLUSIVE
queue_grant: belfry_admin ACCESS EXCLUSIVE
queue_sweep: belfry_admin ACCESS EXCLUSIVE
redrive: belfry_admin ACCESS EXCLUSIVE
redrive_job: belfry_admin ACCESS EXCLUSIVE
resent: belfry_admin ACCESS EXCLUSIVE
revoked_token: belfry_admin ACCESS EXCLUSIVE
schedule: belfry_admin ACCESS EXCLUSIVE
schedules: belfry_admin ACCESS EXCLUSIVE, belfry_producer ACCESS SHARE
schema_migrations: belfry_admin ACCESS SHARE
setting: belfry_admin ACCESS EXCLUSIVE
spool: belfry_admin ACCESS EXCLUSIVE
stream: belfry_admin ACCESS EXCLUSIVE
stream_cycle: belfry_admin ACCESS EXCLUSIVE
stream_state: belfry_admin ACCESS EXCLUSIVE
sweep: belfry_admin ACCESS EXCLUSIVE
tenant: belfry_admin ACCESS EXCLUSIVE
trace: belfry_admin ACCESS EXCLUSIVE
trace_name: belfry_admin ACCESS EXCLUSIVE
`

// heldUp lists for each role the statements that wait while a session of the role holds all locks that the role can get.
// The role "stranger" may only connect, and holds advisory locks. New roles must be added. The first grant of push gives up
// after 5 seconds, or at the time limit of the request: see change_grant.
var heldUp = map[string][]string{
	"nobody":          {},
	"stranger":        {},
	"belfry_consumer": {},
	"belfry_producer": {"POST /api/v1/sql-grants", "the first grant to push"},
}

// sqlStrongestLocks tries each mode of LOCK TABLE on each relation of the schema as each role. It starts with the strongest
// mode.
const sqlStrongestLocks = `CREATE FUNCTION pg_temp.strongest_locks() RETURNS TABLE (relation text, role name, mode text) LANGUAGE plpgsql AS $$
BEGIN
    FOR relation, role IN
        SELECT c.relname, r.rolname FROM pg_class c, pg_roles r
         WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
           AND (r.rolname LIKE 'belfry\_%' OR r.rolname = 'stranger_of_' || current_database())
         ORDER BY c.relname COLLATE "C", r.rolname COLLATE "C"
    LOOP
        FOREACH mode IN ARRAY ARRAY['ACCESS EXCLUSIVE', 'EXCLUSIVE', 'SHARE ROW EXCLUSIVE', 'SHARE', 'SHARE UPDATE EXCLUSIVE',
                                    'ROW EXCLUSIVE', 'ROW SHARE', 'ACCESS SHARE'] LOOP
            BEGIN
                EXECUTE format('SET LOCAL ROLE %I', role);
                EXECUTE format('LOCK TABLE belfry.%I IN %s MODE NOWAIT', relation, mode);
                RESET ROLE;
                RETURN NEXT;
                EXIT;
            EXCEPTION WHEN insufficient_privilege THEN
                RESET ROLE;
            END;
        END LOOP;
    END LOOP;
END $$`

// lock is the strongest lock that a role can get on a relation.
type lock struct{ Relation, Role, Mode string }

func TestLocksOfRolesDelayNoStatement(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	admin := producer(t, dsn)
	database := admin.Config().Database
	stranger, owner := "stranger_of_"+database, "owner_of_"+database
	for _, role := range []string{stranger, owner} { // roles belong to the cluster, so their names contain the name of the database
		execute(t, admin, `CREATE ROLE `+role)
		t.Cleanup(func() {
			conn, err := pgx.Connect(context.Background(), dsn)
			require.NoError(t, err)
			_, err = conn.Exec(context.Background(), `DROP OWNED BY `+role+` CASCADE; DROP ROLE `+role)
			require.NoError(t, err)
			require.NoError(t, conn.Close(context.Background()))
		})
	}
	execute(t, admin, sqlStrongestLocks)
	rows, err := admin.Query(t.Context(), `SELECT relation, role, mode FROM pg_temp.strongest_locks()`)
	require.NoError(t, err)
	locks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lock])
	require.NoError(t, err)
	found := map[string][]string{}
	for _, l := range locks {
		found[l.Relation] = append(found[l.Relation], l.Role+" "+l.Mode)
	}
	var text strings.Builder
	for _, relation := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&text, "%s: %s\n", relation, strings.Join(found[relation], ", "))
	}
	require.Equal(t, strings.TrimPrefix(strongestLocks, "\n"), text.String())

	s := tenancy{startOn(t, dsn, func(cfg *config.Config) { cfg.Database.RequestTimeout = 2 * time.Second }).client(t), ""}
	execute(t, admin, fmt.Sprintf(`GRANT belfry_producer, belfry_consumer TO %[1]s; CREATE SCHEMA theirs AUTHORIZATION %[1]s; SET ROLE %[1]s;
		CREATE TABLE theirs.t (id int PRIMARY KEY, n int); SELECT belfry.attach('theirs.t', 'q', condition => '1 / new.n > 0'); RESET ROLE`, owner))
	roles := []string{"nobody", "stranger"}
	for _, l := range locks {
		if l.Role != "belfry_admin" && !slices.Contains(roles, l.Role) {
			roles = append(roles, l.Role)
		}
	}
	waiting := map[string][]string{}
	for i, role := range roles {
		w := walk{tenancy: s, owner: owner, place: place{
			queue: fmt.Sprintf("walk%d", i), namespace: fmt.Sprintf("ns%d", i), group: fmt.Sprintf("g%d", i), trace: fmt.Sprintf("trace%d", i), message: "m",
		}}
		w.fill(&w.place)
		w.configure(w.place.queue, map[string]any{"leaseTime": 61}).ok(http.StatusOK)
		w.scan(t, `SELECT id FROM belfry.audit JOIN belfry.audit_undo ON audit_id = id WHERE queue = $1 LIMIT 1`, []any{w.place.queue}, &w.change)
		holder := producer(t, dsn)
		execute(t, holder, `BEGIN`)
		if role != "nobody" {
			execute(t, holder, `SET LOCAL ROLE `+strings.Replace(role, "stranger", stranger, 1))
		}
		for _, l := range locks {
			if l.Role == role {
				execute(t, holder, fmt.Sprintf(`LOCK TABLE belfry.%s IN %s MODE`, l.Relation, l.Mode))
			}
		}
		switch role {
		case "stranger": // a holder of lock 7 or 9 stops the sequencer; see docs/security.md
			execute(t, holder, `SELECT pg_advisory_lock(27696063967295745), pg_try_advisory_lock(1111837766, 8), pg_try_advisory_lock(1111837766, 10)`)
		case "belfry_producer":
			execute(t, holder, `CREATE TEMP TABLE mine (id int); INSERT INTO belfry.inbox (queue, payload) VALUES ('held', '1')`)
		case "belfry_consumer":
			execute(t, holder, `SELECT belfry.pop('held', 'held')`)
		}
		waiting[role] = w.waiting(holder)
		require.NoError(t, holder.Close(t.Context()))
		execute(t, admin, `DROP TRIGGER IF EXISTS check_grants ON belfry.inbox; DELETE FROM belfry.queue_grant`)
	}
	require.Equal(t, heldUp, waiting)
}

// walk uses all features of the product once, with one queue.
type walk struct {
	tenancy
	owner string
	place place
	// change is the id of a change that can be undone.
	change string
}

// waiting uses all features while the transaction of holder is open. It returns the names of the features that failed.
func (w *walk) waiting(holder *pgx.Conn) []string {
	w.t.Helper()
	failed := []string{}
	try := func(what string, do func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(w.t.Context(), 8*time.Second)
		defer cancel()
		if err := do(ctx); err != nil {
			w.t.Logf("%s: %v", what, err)
			failed = append(failed, what)
		}
	}
	probes := probesOf(w.place)
	last := func(route string) bool {
		return strings.HasPrefix(route, "DELETE") || strings.Contains(route, "/maintenance")
	}
	routes := slices.SortedFunc(maps.Keys(probes), func(a, b string) int {
		if last(a) != last(b) {
			return map[bool]int{true: 1, false: -1}[last(a)]
		}
		return strings.Compare(a, b)
	})
	for _, page := range pages.List() {
		try("page "+page.Path, func(ctx context.Context) error {
			_, err := w.readPage(ctx, page.Path+"?q="+w.place.queue+"&g="+w.place.group+"&partition="+w.place.partition+"&t="+w.place.message+"&id="+w.change+"&name="+w.place.queue, "")
			return err
		})
	}
	member := producer(w.t, w.dsn)
	for what, statement := range map[string]string{
		"change an attached table":                  `INSERT INTO theirs.t VALUES (1, 1); UPDATE theirs.t SET id = 2; DELETE FROM theirs.t`,
		"change an attached table without messages": `INSERT INTO theirs.t VALUES (1, 0); DELETE FROM theirs.t`,
		"attach and detach":                         `CREATE TABLE theirs.u (id int); SELECT belfry.attach('theirs.u', 'q'); SELECT belfry.detach('theirs.u'); DROP TABLE theirs.u`,
		"push, pop and ack in SQL":                  `SELECT belfry.push('q', '1'); SELECT belfry.ack(lease) FROM belfry.pop('q', 'in SQL')`,
	} {
		try(what, func(ctx context.Context) error {
			_, err := member.Exec(ctx, `SET ROLE `+w.owner+`; `+statement)
			return err
		})
	}
	try("a message pushed in SQL", func(ctx context.Context) error {
		if _, err := member.Exec(ctx, `SELECT belfry.push($1, '1')`, "from SQL "+w.place.queue); err != nil {
			return err
		}
		got, err := w.send(ctx, get("/api/v1/pop/queue/from%20SQL%20"+w.place.queue+"?wait=true&timeout=6000"))
		if err == nil && got.Status != http.StatusOK {
			err = fmt.Errorf("status %d", got.Status)
		}
		return err
	})
	try("a start", func(ctx context.Context) error { return migrate.New(migrate.Config{URL: w.dsn}, nil).Up(ctx) })
	for _, route := range routes {
		for _, probe := range probes[route] {
			try(route, func(ctx context.Context) error {
				got, err := w.send(ctx, probe)
				if err == nil && got.Status >= http.StatusInternalServerError {
					err = fmt.Errorf("status %d: %s", got.Status, got.Raw)
				}
				return err
			})
		}
	}
	for _, kind := range []string{"", "/pop"} {
		w.do(post("/api/v1/system/maintenance"+kind, `{"enabled":false}`))
	}
	try("the first grant to push", func(ctx context.Context) error {
		_, err := member.Exec(ctx, `RESET ROLE; SELECT belfry.grant_push('belfry_producer', '*')`)
		return err
	})
	var waits int
	w.scan(w.t, `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, []any{holder.PgConn().PID()}, &waits)
	require.Zero(w.t, waits, "no session of the server may wait for the holder")
	return failed
}

package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// problems returns the codes and texts of the problems that a doctor found. It leaves out problems of disks, because the
// test machine may have a full disk, and the version of Postgres, which may get no fixes any more.
func problems(r api.Examination) (codes []string, found string) {
	codes = []string{}
	for _, f := range r.Checks {
		if (f.Result == doctor.Wrong || f.Result == doctor.Warning) && !slices.Contains([]string{"disk_room", "spool_disk", "postgres_version"}, f.Code) {
			codes = append(codes, f.Code)
			found += f.Code + ": " + f.Found + "\n"
		}
	}
	return codes, found
}

// sickroom is a server with its own Postgres. A test may break that Postgres.
type sickroom struct {
	client
	admin *pgx.Conn
	// cfg is the configuration of a doctor that runs without a server.
	cfg config.Config
}

func newSickroom(t *testing.T) *sickroom {
	t.Helper()
	cluster := pgtest.OwnCluster(t, "fsync", "full_page_writes", "max_connections")
	require.NoError(t, cluster.CreateDatabase(t.Context(), "sick"))
	dsn := cluster.URL("sick")
	r := &sickroom{client: startOn(t, dsn, proven).client(t), cfg: config.Default()}
	r.cfg.Database.URL = setting.Secret(dsn)
	r.admin = producer(t, dsn)
	return r
}

// examine runs the doctor without a server.
func (r *sickroom) examine(edits ...func(c *doctor.Config)) api.Examination {
	cfg := app.DoctorConfig(r.cfg, nil)
	for _, edit := range edits {
		edit(&cfg)
	}
	return doctor.New(cfg).Run(r.t.Context())
}

// examined asks a server for the result of its doctor.
func (c client) examined() api.Examination {
	return ask[api.Examination](c, get("/api/v1/doctor")).ok(http.StatusOK)
}

// requireProblems requires that the doctor found exactly the problems want, and that it says what to do about each of them.
func (r *sickroom) requireProblems(got api.Examination, want ...string) {
	r.t.Helper()
	codes, found := problems(got)
	require.ElementsMatch(r.t, want, codes, found)
	for _, f := range got.Checks {
		require.NotEmpty(r.t, f.Found)
		require.Equal(r.t, doctor.Runbook+"#"+f.Code, f.Runbook)
		if f.Result == doctor.Wrong || f.Result == doctor.Warning {
			require.NotEmpty(r.t, f.Do, f.Code)
		}
	}
	require.Equal(r.t, got.Wrong == 0, got.Healthy)
}

// untilProblem waits until the doctor finds a problem. The only problem must be want.
func (r *sickroom) untilProblem(want string, examine func() api.Examination) {
	r.t.Helper()
	var last api.Examination
	until(r.t, "the doctor finds "+want, func() bool {
		last = examine()
		codes, _ := problems(last)
		return len(codes) > 0
	})
	r.requireProblems(last, want)
}

// traffic does what healthy clients do: pushes over HTTP and in SQL, encrypted messages, pops and acks.
func (r *sickroom) traffic() {
	r.configure("secret", map[string]any{"encryptionEnabled": true})
	for range 3 {
		r.push(item{Queue: "orders", Payload: []byte("1")}, item{Queue: "secret", Payload: []byte("2")}).ok(http.StatusCreated)
		execute(r.t, r.admin, `INSERT INTO belfry.inbox (queue, payload) VALUES ('orders', '1')`)
		for _, name := range []string{"orders", "secret"} {
			r.pop(name, "consumerGroup=g&autoAck=true&batch=1")
		}
	}
}

// The doctor must find each planted fault and no other problem. Between the faults it must find no problem.
func TestDoctorFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	r := newSickroom(t)
	r.untilProven(t, 0)
	var traffic sync.WaitGroup
	traffic.Go(func() {
		for range 5 {
			r.traffic()
		}
	})
	for range 3 {
		healthy := r.examined()
		r.requireProblems(healthy)
		require.Zero(t, healthy.Unknown, "%+v", healthy.Checks)
		r.requireProblems(r.examine())
	}
	traffic.Wait()
	r.requireProblems(r.examined())
	exec := func(statement string) { execute(r.t, r.admin, statement) }
	plant := func(name string, fault func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			r.t = t
			fault(t)
		})
	}

	plant("held snapshot", func(t *testing.T) {
		held := producer(t, r.dsn)
		execute(t, held, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
		execute(t, held, `SELECT count(*) FROM belfry.queue`)
		var last api.Examination
		r.untilProblem("held_snapshot", func() api.Examination {
			last = r.examine(func(c *doctor.Config) { c.Limits.Transaction = 300 * time.Millisecond })
			return last
		})
		_, found := problems(last)
		require.Contains(t, found, fmt.Sprintf("session %d of user", held.PgConn().PID()))
		require.NotContains(t, found, "; session", "no session of the server may hold a snapshot")
		execute(t, held, `ROLLBACK`)

		// The doctor must not blame a session of the server that only waits for another session.
		execute(t, held, `SELECT pg_advisory_lock(5)`)
		waiter := producer(t, r.dsn)
		execute(t, waiter, `SET application_name = 'belfry-inbox'`)
		ended := make(chan error, 2)
		go func() {
			_, err := waiter.Exec(t.Context(), `SELECT pg_advisory_lock(5)`)
			ended <- err
		}()
		until(t, "the session waits for the lock", func() (waits bool) {
			r.scan(t, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND pid = $1)`, []any{waiter.PgConn().PID()}, &waits)
			return waits
		})
		go func() {
			_, err := held.Exec(t.Context(), `SELECT pg_sleep(60)`)
			ended <- err
		}()
		r.untilProblem("held_snapshot", func() api.Examination {
			last = r.examine(func(c *doctor.Config) { c.Limits.Transaction = 300 * time.Millisecond })
			codes, found := problems(last)
			require.NotContains(t, found, "belfry-inbox", codes)
			return last
		})
		exec(fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, held.PgConn().PID()))
		first, second := receive(t, ended, "a session ends"), receive(t, ended, "the other session ends")
		require.Error(t, errors.Join(first, second))
		require.True(t, first == nil || second == nil, "the waiting session must get the lock")
	})
	plant("missing right", func(t *testing.T) {
		exec(`CREATE ROLE app LOGIN IN ROLE pg_read_all_stats`)
		exec(`GRANT USAGE ON SCHEMA belfry TO app`)
		exec(`GRANT ALL ON ALL TABLES IN SCHEMA belfry TO app`)
		exec(`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA belfry TO app`)
		as := func(c *doctor.Config) {
			c.URL = setting.Secret(strings.Replace(r.dsn, "postgres@", "app@", 1))
			c.PoolURL = c.URL
		}
		r.requireProblems(r.examine(as))
		exec(`REVOKE UPDATE ON belfry.cursor FROM app`)
		got := r.examine(as)
		r.requireProblems(got, "role_rights")
		_, found := problems(got)
		require.Contains(t, found, `"app" lacks UPDATE ON belfry.cursor`)

		// A connection limit of a role counts only if the role is no superuser.
		exec(`GRANT UPDATE ON belfry.cursor TO app`)
		exec(`ALTER ROLE app CONNECTION LIMIT 20`)
		r.requireProblems(r.examine(as), "connection_budget")
	})
	plant("clock off by 3 s", func(t *testing.T) {
		for _, by := range []time.Duration{3 * time.Second, -3 * time.Second} {
			got := r.examine(func(c *doctor.Config) { c.Now = func() time.Time { return time.Now().Add(by) } })
			r.requireProblems(got, "clock_difference")
			require.False(t, got.Healthy)
		}
	})
	plant("wrong encryption key", func(t *testing.T) {
		other, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
		require.NoError(t, err)
		r.requireProblems(r.examine(func(c *doctor.Config) { c.Sealer = other }), "encryption_keys")
	})
	plant("idle slot", func(*testing.T) {
		exec(`SELECT pg_create_physical_replication_slot('left', true)`)
		r.requireProblems(r.examined(), "replication_slots")
		exec(`SELECT pg_drop_replication_slot('left')`)
	})
	plant("few connections", func(t *testing.T) {
		defer func(before int32) { r.cfg.Database.PoolSize = before }(r.cfg.Database.PoolSize)
		require.Equal(t, "100", r.setting("max_connections"))
		r.cfg.Database.PoolSize = 60
		r.requireProblems(r.examine())
		r.cfg.Database.PoolSize = 120
		r.requireProblems(r.examine(), "connection_budget")
	})
	plant("group far behind", func(*testing.T) {
		r.push(item{Queue: "orders", Payload: []byte("1")}).ok(http.StatusCreated)
		exec(`UPDATE belfry.message SET created_at = now() - interval '2 hours'`)
		r.untilProblem("groups_behind", r.examined)
		exec(`UPDATE belfry.message SET created_at = now()`)
	})
	plant("rejected rows", func(*testing.T) {
		exec(`INSERT INTO belfry.inbox (queue, payload) VALUES (repeat('q', 300), '1')`)
		r.untilProblem("rejected_rows", r.examined)
		exec(`DELETE FROM belfry.inbox_rejected`)
	})
	plant("schedules without messages", func(t *testing.T) {
		exec(`SELECT belfry.schedule('daily', 'reports', '{}', cron => '@daily')`)
		exec(`SELECT belfry.schedule('hourly', 'orders', '{}', cron => '@hourly')`)
		until(t, "the server has computed the instants", func() (computed bool) {
			r.scan(t, `SELECT bool_and(next_at IS NOT NULL) FROM belfry.schedules`, nil, &computed)
			return computed
		})
		r.requireProblems(r.examined())
		exec(`UPDATE belfry.queue SET paused = true WHERE name = 'orders'`)
		r.untilProblem("schedule_queues", r.examined)
		exec(`UPDATE belfry.queue SET paused = false WHERE name = 'orders'`)
		exec(`SELECT belfry.schedule('hourly', 'orders', '{}', cron => '99 * * * *')`)
		r.untilProblem("schedule_errors", r.examined)
		exec(`SELECT belfry.unschedule('hourly'), belfry.unschedule('daily')`)
		r.requireProblems(r.examined())
	})
	plant("settings that lose data", func(t *testing.T) {
		exec(`ALTER SYSTEM SET fsync = off`)
		exec(`SELECT pg_reload_conf()`)
		r.untilProblem("lossy_settings", r.examined)
		exec(`ALTER SYSTEM RESET fsync`)
		exec(`SELECT pg_reload_conf()`)
		exec(`ALTER TABLE belfry.history SET UNLOGGED`)
		until(t, "fsync is on", func() bool { return r.setting("fsync") == "on" })
		r.requireProblems(r.examined(), "lossy_settings")
		exec(`ALTER TABLE belfry.history SET LOGGED`)
	})
	plant("roles without rights", func(*testing.T) {
		exec(`REVOKE EXECUTE ON FUNCTION belfry.wake() FROM PUBLIC, belfry_producer`)
		exec(`ALTER TABLE belfry.inbox ENABLE ROW LEVEL SECURITY`)
		got := r.examined()
		r.requireProblems(got, "role_rights")
		_, found := problems(got)
		require.Contains(t, found, "belfry_producer may not execute belfry.wake()")
		require.Contains(t, found, "row security hides belfry.inbox")
		exec(`GRANT EXECUTE ON FUNCTION belfry.wake() TO PUBLIC, belfry_producer`)
		exec(`ALTER TABLE belfry.inbox DISABLE ROW LEVEL SECURITY`)
	})
	plant("autovacuum off", func(*testing.T) {
		exec(`ALTER TABLE belfry.cursor SET (autovacuum_enabled = off)`)
		r.requireProblems(r.examined(), "autovacuum")
		exec(`ALTER TABLE belfry.cursor RESET (autovacuum_enabled)`)
	})
	plant("a spool without a running server", func(*testing.T) {
		exec(`INSERT INTO belfry.spool VALUES (gen_random_uuid(), 'gone', 5, 0, 100, now() - interval '1 hour')`)
		r.requireProblems(r.examined(), "spool_backlog")
		exec(`DELETE FROM belfry.spool`)
	})
	require.NoError(t, r.stop(t))
	plant("missing synchronous standby", func(*testing.T) {
		exec(`ALTER SYSTEM SET synchronous_standby_names = 'gone'`)
		exec(`SELECT pg_reload_conf()`)
		r.untilProblem("replication_lag", func() api.Examination { return r.examine() })
		exec(`ALTER SYSTEM RESET synchronous_standby_names`)
		exec(`SELECT pg_reload_conf()`)
		until(r.t, "Postgres waits for no standby", func() bool { return r.setting("synchronous_standby_names") == "" })
	})
	plant("locks of a foreign session", func(t *testing.T) {
		exec(`CREATE ROLE nobody LOGIN`)
		stranger := producer(t, strings.Replace(r.dsn, "postgres@", "nobody@", 1))
		execute(t, stranger, `SELECT pg_advisory_lock_shared(1111837766, 8), pg_advisory_lock_shared(1111837766, 10)`)
		r.requireProblems(r.examine())
		execute(t, stranger, `SELECT pg_advisory_lock(1111837766, 8), pg_advisory_lock(27696063967295745)`)
		got := r.examine()
		r.requireProblems(got, "foreign_locks")
		require.True(t, got.Healthy, "locks that do not block the server must leave it healthy")
		execute(t, stranger, `SELECT pg_advisory_lock(1111837766, 7)`)
		got = r.examine()
		r.requireProblems(got, "foreign_locks")
		require.False(t, got.Healthy)
		_, found := problems(got)
		holds := fmt.Sprintf("session %d of user \"nobody\", application \"\" holds ", stranger.PgConn().PID())
		for _, lock := range []string{"lock 7 of the inbox: messages", "lock 8 of the inbox: the", "the migration lock: no instance"} {
			require.Contains(t, found, holds+lock)
		}
		execute(t, stranger, `SELECT pg_advisory_unlock_all()`)
		r.requireProblems(r.examine())
	})
	plant("stuck sequencer", func(t *testing.T) {
		held := producer(t, r.dsn)
		execute(t, held, `SELECT pg_advisory_lock(1111837766, 7)`)
		exec(`INSERT INTO belfry.inbox (queue, payload, inserted_at) VALUES ('orders', '1', now() - interval '10 minutes')`)
		got := r.examine()
		r.requireProblems(got, "sequencer")
		_, found := problems(got)
		require.Contains(t, found, fmt.Sprintf("held by session %d", held.PgConn().PID()))
		execute(t, held, `SELECT pg_advisory_unlock_all()`)
		_, found = problems(r.examine())
		require.Contains(t, found, "no session holds the lock")
	})
}

func (r *sickroom) setting(name string) (value string) {
	r.t.Helper()
	require.NoError(r.t, r.admin.QueryRow(r.t.Context(), `SELECT current_setting($1)`, name).Scan(&value))
	return value
}

// If the listener of a server receives no notifications, the doctor must find it, even if the connection is open.
func TestDoctorFindsADeadListener(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	proxy, through := pgproxy.New(t, dsn)
	s := startOn(t, dsn, listenOn(through))
	c := s.client(t)
	s.untilProven(t, 0)
	codes, found := problems(c.examined())
	require.Equal(t, []string{lossy}, codes, found)
	proxy.Swallow.Store(true)
	codes, found = problems(c.examined())
	require.ElementsMatch(t, []string{"listen", lossy}, codes, found)
}

// lossy is a problem of each database of pgtest, because fsync is off there.
const lossy = "lossy_settings"

package inbox

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// locks counts the sessions that hold a lock, or that wait for it.
func (r *fixture) locks(id int32, granted bool) int64 {
	r.t.Helper()
	return r.number("SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $1::int::oid AND l.objid = $2::int::oid AND l.objsubid = 2"+
		" AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.granted = $3", lockClass, id, granted)
}

// awaitSleep waits until the sequencer is asleep.
func (r *fixture) awaitSleep() {
	r.t.Helper()
	enginetest.Await(r.t, "the sequencer sleeps", func() bool { return r.locks(watchLock, true) == 0 && r.sleepLocked() })
}

// sleepLocked reports whether a sequencer holds SLEEP exclusively.
func (r *fixture) sleepLocked() bool {
	r.t.Helper()
	return r.number(`SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $1::int::oid AND l.objid = $2::int::oid
		AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
		AND l.granted AND l.mode = 'ExclusiveLock'`, lockClass, sleepLock) > 0
}

// wakeSequencer inserts rows concurrently until the sequencer is awake and has released SLEEP.
func (r *fixture) wakeSequencer() {
	r.t.Helper()
	var all [4]session
	for i := range all {
		all[i] = r.session()
	}
	for ctx := enginetest.Context(r.t); r.locks(awakeLock, true) == 0 || r.sleepLocked(); {
		require.NoError(r.t, ctx.Err(), "the sequencer does not wake up")
		done := make(chan error, len(all))
		for _, s := range all {
			go func() {
				_, err := s.Exec(ctx, "INSERT INTO belfry.inbox (queue, partition, payload) VALUES ('q', 'noise', '{}')")
				done <- err
			}()
		}
		for range all {
			require.NoError(r.t, <-done)
		}
	}
}

// keepAwake keeps the sequencer awake until the test calls release. Then the sequencer stays awake for the given time
// after the next row that it moves. Call keepAwake before start.
func (r *fixture) keepAwake() (release func(time.Duration)) {
	r.linger = time.Hour
	var wanted atomic.Int64
	wanted.Store(int64(r.linger))
	r.before = func([]int64) { r.linger = time.Duration(wanted.Load()) }
	return func(d time.Duration) { wanted.Store(int64(d)) }
}

// notified returns the number of notifications of the inbox that a session has received since the
// last call, from all sessions or from one producer. It includes all notifications of ended
// transactions.
func (s session) notified(producer ...session) (n int) {
	s.t.Helper()
	s.exec("SELECT pg_notify('no_more', '')")
	for {
		got, err := s.WaitForNotification(enginetest.Context(s.t))
		require.NoError(s.t, err)
		if got.Channel == "no_more" {
			return n
		}
		if len(producer) == 0 || got.PID == producer[0].PgConn().PID() {
			n++
		}
	}
}

func (r *fixture) listener() session {
	r.t.Helper()
	s := r.session()
	s.exec("LISTEN belfry_inbox")
	s.exec("LISTEN no_more")
	return s
}

// noQueries reports whether no query reads the inbox or its locks for d.
func (r *fixture) noQueries(d time.Duration) bool {
	r.t.Helper()
	watcher := r.session()
	latest := func() (at time.Time) {
		require.NoError(r.t, watcher.QueryRow(enginetest.Context(r.t), `SELECT max(a.query_start) FROM pg_stat_activity a
			WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
			  AND (a.query LIKE '%belfry.inbox%' OR a.query LIKE '%belfry.wake%' OR a.query LIKE '%_advisory_%')`).Scan(&at))
		return at
	}
	before := latest()
	watcher.exec("SELECT pg_sleep($1)", d.Seconds())
	return latest().Equal(before)
}

// Producers notify a sleeping sequencer. While the sequencer is awake, they send no notification.
func TestProducersNotifyASleepingSequencer(t *testing.T) {
	r := newFixture(t)
	keepAwake := r.keepAwake()
	r.start(t, r.dsn)
	r.awaitSleep()
	listener := r.listener()
	r.session().insert("a", "one")
	enginetest.Await(t, "the row is sequenced", func() bool { return r.waiting() == 0 })
	require.Equal(t, 1, listener.notified())
	require.Zero(t, r.locks(awakeLock, true), "a single row does not wake up the sequencer")
	r.wakeSequencer()
	listener.notified()
	r.session().insert("a", "two")
	require.Equal(t, int64(1), r.locks(awakeLock, true))
	require.Zero(t, listener.notified())
	enginetest.Await(t, "the row is sequenced", func() bool { return r.waiting() == 0 })
	keepAwake(linger)
	for s, ctx := r.session(), enginetest.Context(t); r.locks(watchLock, true) > 0; { // single rows do not keep the sequencer awake
		require.NoError(t, ctx.Err())
		s.insert("b", fmt.Sprint(time.Now().UnixNano()))
		enginetest.Await(t, "the row is sequenced", func() bool { return r.waiting() == 0 })
	}
	r.awaitSleep()
	listener.notified()
	r.session().insert("a", "three")
	require.Equal(t, 1, listener.notified())
	enginetest.Await(t, "the row is sequenced", func() bool { return len(r.stored("a")) == 3 })
	require.Equal(t, []string{"one", "two", "three"}, r.stored("a"))
}

// A transaction leaves out its notification and stays open. The sequencer finds its row after the
// commit. Until then, the transaction causes no queries and delays no other row.
func TestSleepWaitsForProducersThatDoNotNotify(t *testing.T) {
	r := newFixture(t)
	keepAwake := r.keepAwake()
	r.start(t, r.dsn)
	r.awaitSleep()
	late, rolled, s, listener := r.session(), r.session(), r.session(), r.listener()
	r.wakeSequencer()
	listener.notified()
	for _, producer := range []session{late, rolled} {
		producer.exec("BEGIN")
		producer.insert("a", "late")
	}
	keepAwake(linger)
	s.insert("b", "one")
	enginetest.Await(t, "the sequencer waits for SLEEP", func() bool { return r.locks(sleepLock, false) == 1 })
	require.Equal(t, int64(2), r.locks(sleepLock, true))
	listener.notified()
	s.insert("a", "early")
	require.Equal(t, 1, listener.notified(), "a producer notifies while the sequencer waits for SLEEP")
	enginetest.Await(t, "the row is moved", func() bool { return len(r.stored("a")) == 1 })
	enginetest.Await(t, "the sequencer sends no query", func() bool { return r.noQueries(watchInterval) })
	rolled.exec("ROLLBACK")
	require.Equal(t, int64(1), r.locks(watchLock, true))
	late.exec("COMMIT")
	watch := stopwatch.Start(t)
	enginetest.Await(t, "the late row is moved", func() bool { return len(r.stored("a")) == 2 })
	watch.Within(t, takeover, "the late row is moved")
	require.Zero(t, listener.notified())
	require.Equal(t, []string{"early", "late"}, r.stored("a"))
	r.awaitSleep()
}

// A sequencer that waits for a long transaction wakes up again under load.
func TestLoadEndsTheWaitForSleep(t *testing.T) {
	r := newFixture(t)
	keepAwake := r.keepAwake()
	r.start(t, r.dsn)
	r.awaitSleep()
	late, s := r.session(), r.session()
	r.wakeSequencer()
	late.exec("BEGIN")
	late.insert("a", "late")
	for range 3 {
		keepAwake(linger)
		s.insert("b", "")
		enginetest.Await(t, "the sequencer waits for SLEEP", func() bool { return r.locks(sleepLock, false) == 1 })
		require.Equal(t, int64(1), r.locks(sleepLock, true))
		keepAwake(time.Hour)
		r.wakeSequencer()
		enginetest.Await(t, "the sequencer waits for SLEEP no longer", func() bool { return r.locks(sleepLock, false) == 0 })
	}
	require.Zero(t, enginetest.Metric(t, r.reg, "belfry_inbox_failures_total"))
	keepAwake(linger)
	late.exec("COMMIT")
	r.awaitSleep()
	require.Zero(t, r.waiting())
	require.Equal(t, []string{"late"}, r.stored("a"))
}

// Producers insert in bursts, so the sequencer often goes to sleep. The test ends the session of
// the sequencer now and then. The sequencer finds all rows without a fallback scan.
func TestManySleepsMissNoRow(t *testing.T) {
	r := newFixture(t)
	r.linger = 5 * time.Millisecond
	r.start(t, r.dsn) // only one instance: a second instance would find a row that the first missed
	const producers, bursts, each = 8, 25, 4
	var sessions [producers]session
	for n := range sessions {
		sessions[n] = r.session()
	}
	for burst := range bursts {
		done := make(chan error, producers)
		for n, s := range sessions {
			random := rand.New(rand.NewPCG(uint64(burst), uint64(n)))
			go func() {
				var err error
				for i := 1; i <= each && err == nil; i++ { // each insert is one transaction; the last one stays open for a while
					_, err = s.Exec(t.Context(), fmt.Sprintf("INSERT INTO belfry.inbox (queue, partition, payload) VALUES ('q', 'noise', '{}');"+
						"SELECT pg_sleep(%f)", 0.06*random.Float64()*float64(i/each)))
				}
				done <- err
			}()
		}
		if burst%8 == 4 {
			r.exec("SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objid = $1::int::oid AND l.granted"+
				" AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())", leaderLock)
		}
		for range producers {
			require.NoError(t, <-done)
		}
		enginetest.Await(t, "all rows of the burst are moved", func() bool { return r.waiting() == 0 })
	}
	require.Len(t, r.stored("noise"), producers*bursts*each)
}

// awaitProbes waits until an instance on standby has made n probes.
func (r *fixture) awaitProbes(n int) {
	r.t.Helper()
	var seen time.Time
	enginetest.Await(r.t, "an instance probes the inbox", func() bool {
		var at time.Time
		require.NoError(r.t, r.Pool.QueryRow(enginetest.Context(r.t), `SELECT coalesce(max(a.query_start), '0001-01-01')
			FROM pg_stat_activity a WHERE a.datname = current_database() AND left(a.query, 80) = left($1, 80)`, sqlWatch).Scan(&at))
		if at.After(seen) {
			seen = at
			n--
		}
		return n < 0 // the first probe may have been before the call
	})
}

// fakeSequencer opens a session that holds some locks, like the sequencer of another process. die
// ends the session.
func (r *fixture) fakeSequencer(ids ...int32) (die func()) {
	r.t.Helper()
	s := r.session()
	for _, id := range ids {
		s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, id)
	}
	return func() { r.exec("SELECT pg_terminate_backend($1::bigint::int)", int64(s.PgConn().PID())) }
}

// A sequencer dies asleep. SLEEP ends with its session, so the producer of the next row notifies,
// and another instance takes over.
func TestDeathAsleep(t *testing.T) {
	r := newFixture(t)
	die := r.fakeSequencer(leaderLock, sleepLock)
	r.start(t, r.dsn)
	s, listener := r.session(), r.listener()
	s.insert("a", "one") // b gets the notification and finds no row, because the sequencer has moved it
	s.exec("DELETE FROM belfry.inbox")
	enginetest.Await(t, "b sends no more queries", func() bool { return r.noQueries(2 * watchInterval) })
	die()
	enginetest.Await(t, "the sequencer is dead", func() bool { return r.locks(leaderLock, true) == 0 })
	listener.notified()
	s.insert("a", "two")
	watch := stopwatch.Start(t)
	require.Positive(t, listener.notified())
	enginetest.Await(t, "b takes over", func() bool { return len(r.stored("a")) == 1 })
	watch.Within(t, takeover, "b takes over")
}

// A sequencer dies awake. Another instance takes over without a notification.
func TestDeathAwake(t *testing.T) {
	r := newFixture(t)
	die := r.fakeSequencer(leaderLock, watchLock, awakeLock)
	r.start(t, r.dsn)
	s, late, listener := r.session(), r.session(), r.listener()
	late.exec("BEGIN")
	late.insert("a", "late")
	r.awaitProbes(2) // b has found no row
	s.insert("a", "one")
	require.Zero(t, listener.notified(s), "b may notify, but the producer does not")
	die()
	watch := stopwatch.Start(t)
	enginetest.Await(t, "b takes over", func() bool { return len(r.stored("a")) == 1 })
	watch.Within(t, takeover, "b takes over")
	enginetest.Await(t, "the sequencer waits for SLEEP", func() bool { return r.locks(sleepLock, false) == 1 })
	listener.notified()
	late.exec("COMMIT")
	watch = stopwatch.Start(t)
	enginetest.Await(t, "the row of the open transaction is moved", func() bool { return len(r.stored("a")) == 2 })
	watch.Within(t, takeover, "the row of the open transaction is moved")
	require.Zero(t, listener.notified())
	require.Equal(t, []string{"one", "late"}, r.stored("a"))
}

// A sequencer freezes while it sleeps. Its session for SLEEP is ended too, because the next sequencer
// would wait for SLEEP.
func TestFrozenAsleep(t *testing.T) {
	r := newFixture(t)
	r.fakeSequencer(leaderLock)
	r.fakeSequencer(sleepLock)
	r.start(t, r.dsn)
	r.session().insert("a", "one")
	enginetest.Await(t, "b takes over", func() bool { return len(r.stored("a")) == 1 })
	r.awaitSleep()
}

// One probe that finds no row and no WATCH does not end watching, because the sequencer may have died
// just before the probe.
func TestTwoQuietProbesEndWatching(t *testing.T) {
	r := newFixture(t)
	die := r.fakeSequencer(leaderLock)
	for range 2 { // the first step starts to watch, the second step probes
		r.runStep()
		require.True(t, r.watching)
	}
	r.runStep()
	require.False(t, r.watching)
	die()
	enginetest.Await(t, "the sequencer is dead", func() bool { return r.locks(leaderLock, true) == 0 })
	r.runStep()
	require.NotNil(t, r.conn)
}

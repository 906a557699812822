package inbox

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// locks counts the sessions that have a lock, or wait for it.
func (r *fixture) locks(id int32, granted bool) int64 {
	r.t.Helper()
	return r.number("SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $1::int::oid AND l.objid = $2::int::oid AND l.objsubid = 2"+
		" AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.granted = $3", lockClass, id, granted)
}

// slept waits until the sequencer is asleep.
func (r *fixture) slept() {
	r.t.Helper()
	r.await("it sleeps", func() bool { return r.locks(markID, true) == 0 && r.inBed() })
}

// inBed says whether a sequencer has the lock of sleep for itself.
func (r *fixture) inBed() bool {
	r.t.Helper()
	return r.number(`SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $1::int::oid AND l.objid = $2::int::oid
		AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
		AND l.granted AND l.mode = 'ExclusiveLock'`, lockClass, sleepID) > 0
}

// woke makes many rows until the sequencer is awake and has left its bed.
func (r *fixture) woke() {
	r.t.Helper()
	var all [4]session
	for i := range all {
		all[i] = r.session()
	}
	for ctx := testContext(r.t); r.locks(awakeID, true) == 0 || r.inBed(); {
		require.NoError(r.t, ctx.Err(), "it does not wake up")
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

// heard is how many notifications of the inbox a session has heard since the last
// time, of anybody or of a producer alone; it hears those of every transaction that has ended.
func (s session) heard(producer ...session) (n int) {
	s.t.Helper()
	s.exec("SELECT pg_notify('that_is_all', '')")
	for {
		got, err := s.WaitForNotification(testContext(s.t))
		require.NoError(s.t, err)
		if got.Channel == "that_is_all" {
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
	s.exec("LISTEN that_is_all")
	return s
}

// quiet says whether nothing is asked of the inbox or of its locks while d passes.
func (r *fixture) quiet(d time.Duration) bool {
	r.t.Helper()
	watcher := r.session()
	latest := func() (at time.Time) {
		require.NoError(r.t, watcher.QueryRow(testContext(r.t), `SELECT max(a.query_start) FROM pg_stat_activity a
			WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
			  AND (a.query LIKE '%belfry.inbox%' OR a.query LIKE '%belfry.wake%' OR a.query LIKE '%_advisory_%')`).Scan(&at))
		return at
	}
	before := latest()
	watcher.exec("SELECT pg_sleep($1)", d.Seconds())
	return latest().Equal(before)
}

// A sequencer that is awake needs no notifications, one that sleeps does.
func TestProducersNotifyTheSleeping(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.linger = 5 * time.Second
	r.start(t, r.dsn)
	r.slept()
	ear := r.listener()
	r.session().insert("a", "one")
	r.await("it is sequenced", func() bool { return r.waiting() == 0 })
	require.Equal(t, 1, ear.heard())
	require.Zero(t, r.locks(awakeID, true), "a row on its own is no reason to wake up")
	r.woke()
	ear.heard()
	r.session().insert("a", "two")
	require.Equal(t, int64(1), r.locks(awakeID, true))
	require.Zero(t, ear.heard())
	r.await("it is sequenced", func() bool { return r.waiting() == 0 })
	for s, ctx := r.session(), testContext(t); r.locks(markID, true) > 0; { // one by one they do not keep it awake
		require.NoError(t, ctx.Err())
		s.insert("b", fmt.Sprint(time.Now().UnixNano()))
		r.await("it is sequenced", func() bool { return r.waiting() == 0 })
	}
	r.slept()
	ear.heard()
	r.session().insert("a", "three")
	require.Equal(t, 1, ear.heard())
	r.await("it is sequenced", func() bool { return len(r.stored("a")) == 3 })
	require.Equal(t, []string{"one", "two", "three"}, r.stored("a"))
}

// The row of a transaction that has left out its notification is found when it
// commits, however late. Until then it costs nothing and holds nobody up.
func TestSleepWaitsForWhoeverAnnouncedNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.linger = 5 * time.Second
	r.start(t, r.dsn)
	r.slept()
	late, rolled, s, ear := r.session(), r.session(), r.session(), r.listener()
	r.woke()
	ear.heard()
	for _, one := range []session{late, rolled} {
		one.exec("BEGIN")
		one.insert("a", "late")
	}
	r.await("it wants to sleep", func() bool { return r.locks(sleepID, false) == 1 })
	require.Equal(t, int64(2), r.locks(sleepID, true))
	ear.heard()
	s.insert("a", "early")
	require.Equal(t, 1, ear.heard(), "who comes while it waits for the lock notifies")
	r.await("it is heard", func() bool { return len(r.stored("a")) == 1 })
	r.await("it asks for nothing", func() bool { return r.quiet(2 * time.Second) })
	rolled.exec("ROLLBACK")
	require.Equal(t, int64(1), r.locks(markID, true))
	late.exec("COMMIT")
	committed := time.Now()
	r.await("it is found", func() bool { return len(r.stored("a")) == 2 })
	require.Less(t, time.Since(committed), takeover)
	require.Zero(t, ear.heard())
	require.Equal(t, []string{"early", "late"}, r.stored("a"))
	r.slept()
}

// A sequencer that waits for a long transaction wakes up again when many commit.
func TestLoadKeepsItFromSleep(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.linger = 2 * time.Second
	r.start(t, r.dsn)
	r.slept()
	late := r.session()
	r.woke()
	late.exec("BEGIN")
	late.insert("a", "late")
	for range 3 {
		r.await("it wants to sleep", func() bool { return r.locks(sleepID, false) == 1 })
		require.Equal(t, int64(1), r.locks(sleepID, true))
		r.woke()
		r.await("it wants that no longer", func() bool { return r.locks(sleepID, false) == 0 })
	}
	require.Zero(t, r.metric(t, "belfry_inbox_failures_total"))
	late.exec("COMMIT")
	r.slept()
	require.Zero(t, r.waiting())
	require.Equal(t, []string{"late"}, r.stored("a"))
}

// Producers that come in bursts, so that it often goes to sleep, and a sequencer whose
// session ends: all is found without any look that nobody asked for.
func TestManyNapsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.linger = 5 * time.Millisecond
	r.start(t, r.dsn) // alone: another instance would mend what is left lying
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
				for i := 1; i <= each && err == nil; i++ { // each is one transaction; the last stays open for a while
					_, err = s.Exec(t.Context(), fmt.Sprintf("INSERT INTO belfry.inbox (queue, partition, payload) VALUES ('q', 'noise', '{}');"+
						"SELECT pg_sleep(%f)", 0.06*random.Float64()*float64(i/each)))
				}
				done <- err
			}()
		}
		if burst%8 == 4 {
			r.exec("SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objid = $1::int::oid AND l.granted"+
				" AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())", lockID)
		}
		for range producers {
			require.NoError(t, <-done)
		}
		r.await("all of the burst is found", func() bool { return r.waiting() == 0 })
	}
	require.Len(t, r.stored("noise"), producers*bursts*each)
}

// idler plays a sequencer of another process, which has some locks and dies.
func (r *fixture) idler(ids ...int32) (die func()) {
	r.t.Helper()
	s := r.session()
	for _, id := range ids {
		s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, id)
	}
	return func() { r.exec("SELECT pg_terminate_backend($1::bigint::int)", int64(s.PgConn().PID())) }
}

// Who dies asleep is missed at the next row, which is announced since the lock went
// with its session.
func TestDeathAsleep(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	die := r.idler(lockID, sleepID)
	r.start(t, r.dsn)
	s, ear := r.session(), r.listener()
	s.insert("a", "one") // wakes b, which finds the other one at work, it seems
	s.exec("DELETE FROM belfry.inbox")
	r.await("b asks no more", func() bool { return r.quiet(3 * watchEvery) })
	die()
	r.await("it is dead", func() bool { return r.locks(lockID, true) == 0 })
	ear.heard()
	s.insert("a", "two")
	began := time.Now()
	require.Positive(t, ear.heard())
	r.await("b takes over", func() bool { return len(r.stored("a")) == 1 })
	require.Less(t, time.Since(began), takeover)
}

// Who dies awake is missed though nothing is announced.
func TestDeathAwake(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	die := r.idler(lockID, markID, awakeID)
	r.start(t, r.dsn)
	s, late, ear := r.session(), r.session(), r.listener()
	late.exec("BEGIN")
	late.insert("a", "late")
	s.exec("SELECT pg_sleep($1)", 3*watchEvery.Seconds()) // b has looked, and there was nothing
	s.insert("a", "one")
	require.Zero(t, ear.heard(s), "b may ask, when it looks just then")
	die()
	began := time.Now()
	r.await("b takes over", func() bool { return len(r.stored("a")) == 1 })
	require.Less(t, time.Since(began), takeover)
	r.await("it wants to sleep", func() bool { return r.locks(sleepID, false) == 1 })
	ear.heard()
	late.exec("COMMIT")
	began = time.Now()
	r.await("what the dead one knew of is found", func() bool { return len(r.stored("a")) == 2 })
	require.Less(t, time.Since(began), takeover)
	require.Zero(t, ear.heard())
	require.Equal(t, []string{"one", "late"}, r.stored("a"))
}

// Who freezes asleep is ended with its bed, for which the next one would wait.
func TestFrozenAsleep(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.idler(lockID)
	r.idler(sleepID)
	r.start(t, r.dsn)
	r.session().insert("a", "one")
	r.await("b takes over", func() bool { return len(r.stored("a")) == 1 })
	r.slept()
}

// The first look without the mark may have been at a session that was ending.
func TestTwoCalmLooksEndAWatch(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	die := r.idler(lockID)
	for range 2 { // begins, and looks
		r.turned()
		require.True(t, r.watching)
	}
	r.turned()
	require.False(t, r.watching)
	die()
	r.await("it is dead", func() bool { return r.locks(lockID, true) == 0 })
	r.turned()
	require.NotNil(t, r.conn)
}

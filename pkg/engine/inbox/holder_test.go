package inbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/test/enginetest"
)

// observeLogs returns the log of the instance.
func (r *fixture) observeLogs() *observer.ObservedLogs {
	core, logs := observer.New(zap.InfoLevel)
	r.Log = zap.New(core)
	return logs
}

// foreignSession returns a session with an application name, and its pid.
func (r *fixture) foreignSession() (s session, pid int64) {
	r.t.Helper()
	s = r.session()
	s.exec(`SET application_name = 'foreign'`)
	return s, int64(s.PgConn().PID())
}

// user returns the role of all sessions of the test.
func (r *fixture) user() string {
	r.t.Helper()
	return r.texts("SELECT session_user::text")[0]
}

// runSteps runs n steps.
func (r *fixture) runSteps(n int) {
	r.t.Helper()
	for range n {
		_, err := r.step(enginetest.Context(r.t))
		require.NoError(r.t, err)
	}
}

// A foreign session that holds the leader lock is not ended while it is busy. A log line names the
// session.
func TestABusyForeignSessionWithTheLeaderLockIsLogged(t *testing.T) {
	r := newFixture(t)
	logs := r.observeLogs()
	blocker := r.session()
	blocker.exec("SELECT pg_advisory_lock(1)")
	s, pid := r.foreignSession()
	s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, leaderLock)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Exec(t.Context(), "SELECT pg_advisory_lock(1)")
		ended <- err
	}()
	r.session().insert("a", "one")
	r.stalledAfter = time.Hour
	r.runSteps(4)
	require.Empty(t, logs.All(), "the row has not waited for long")
	r.stalledAfter = 0
	r.runSteps(2)
	lines := logs.FilterMessageSnippet("moved no row").All()
	require.Len(t, lines, 1, "one log line per minute")
	require.Equal(t, fmt.Sprintf(`session %d of user %q, application "foreign"`, pid, r.user()), lines[0].ContextMap()["holder"])
	hint := fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid)
	require.Equal(t, hint, lines[0].ContextMap()["hint"])
	require.EqualValues(t, 1, r.waiting())

	r.exec(hint)
	require.Error(t, <-ended)
	enginetest.Await(t, "the instance takes over", func() bool {
		r.runStep()
		return r.waiting() == 0
	})
}

// While the first row changes, the sequencer works, and no log line is written.
func TestAWorkingSequencerIsNotLogged(t *testing.T) {
	r := newFixture(t)
	logs := r.observeLogs()
	r.stalledAfter = 0
	s, _ := r.foreignSession()
	s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, leaderLock)
	for i := range 4 {
		s.exec("DELETE FROM belfry.inbox")
		s.insert("a", fmt.Sprint(i))
		r.runSteps(1)
	}
	require.Empty(t, logs.All())
}

func TestAnIdleForeignSessionWithTheLeaderLockIsEnded(t *testing.T) {
	r := newFixture(t)
	logs := r.observeLogs()
	s, pid := r.foreignSession()
	began := time.Now()
	s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, leaderLock)
	r.session().insert("a", "one")
	enginetest.Await(t, "the instance takes over", func() bool {
		r.runStep()
		return r.waiting() == 0
	})
	require.Greater(t, time.Since(began), frozenAfter)
	lines := logs.FilterMessageSnippet("frozen").All()
	require.NotEmpty(t, lines)
	require.Contains(t, lines[0].ContextMap()["holder"], fmt.Sprintf(`session %d of`, pid))
}

func TestAForeignSessionWithTheWatchLockIsNamed(t *testing.T) {
	r := newFixture(t)
	s, pid := r.foreignSession()
	s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, watchLock)
	_, err := r.step(enginetest.Context(t))
	require.ErrorIs(t, err, errWatchLocked)
	require.ErrorContains(t, err, fmt.Sprintf(`session %d of user %q, application "foreign"`, pid, r.user()))
	// The session of the instance ends a moment after the error. Until then it holds the leader lock.
	enginetest.Await(t, "the status names the session while no instance leads", func() bool {
		h, err := r.Holder(enginetest.Context(t))
		require.NoError(t, err)
		return h.PID == pid
	})
	s.exec("SELECT pg_advisory_unlock_all()")
	r.runStep()
}

func TestHolderReturnsTheSessionWithTheLock(t *testing.T) {
	r := newFixture(t)
	h, err := r.Holder(enginetest.Context(t))
	require.NoError(t, err)
	require.Nil(t, h)
	s := r.session()
	for _, statement := range []string{
		// A lock of another class, or with only one key, is a different lock.
		fmt.Sprintf("SELECT pg_advisory_lock(%d, %d)", lockClass+1, leaderLock),
		fmt.Sprintf("SELECT pg_advisory_lock(%d)", int64(lockClass)<<32|int64(leaderLock)), "SELECT pg_advisory_lock(7)",
	} {
		s.exec(statement)
		h, err = r.Holder(enginetest.Context(t))
		require.NoError(t, err)
		require.Nil(t, h, statement)
	}
	r.runStep()
	h, err = r.Holder(enginetest.Context(t))
	require.NoError(t, err)
	require.Equal(t, &Holder{PID: r.leader(), User: r.user(), Application: "belfry-test"}, h)
	// A role without rights on other sessions also sees the user and the application of the holder.
	var seen Holder
	s.exec("SET ROLE belfry_consumer")
	require.NoError(t, s.QueryRow(enginetest.Context(t), sqlHolder, lockClass, []int32{leaderLock}).Scan(&seen.PID, &seen.User, &seen.Application))
	require.Equal(t, *h, seen)
	require.Equal(t, "nobody any more", (*Holder)(nil).String())
	require.Contains(t, (&Holder{}).String(), "pg_prepared_xacts")
	require.Contains(t, (&Holder{}).EndStatement(), "ROLLBACK PREPARED", "a prepared transaction has no session to end")
}

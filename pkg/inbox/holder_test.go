package inbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// overheard lets the instance log to a test.
func (r *fixture) overheard() *observer.ObservedLogs {
	core, logs := observer.New(zap.InfoLevel)
	r.log = zap.New(core)
	return logs
}

// stranger is a session that says what it is called, and its pid.
func (r *fixture) stranger() (s session, pid int64) {
	r.t.Helper()
	s = r.session()
	s.exec(`SET application_name = 'stranger'`)
	return s, int64(s.PgConn().PID())
}

// user is the role that everybody here connects as.
func (r *fixture) user() string {
	r.t.Helper()
	return r.texts("SELECT session_user::text")[0]
}

// turns looks n times.
func (r *fixture) turns(n int) {
	r.t.Helper()
	for range n {
		_, err := r.turn(testContext(r.t))
		require.NoError(r.t, err)
	}
}

// Somebody who has the lock and is at work for something else is not ended, but told of.
func TestABusyStrangerWithTheLockIsNamed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	logs := r.overheard()
	blocker := r.session()
	blocker.exec("SELECT pg_advisory_lock(1)")
	s, pid := r.stranger()
	s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, lockID)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Exec(t.Context(), "SELECT pg_advisory_lock(1)")
		ended <- err
	}()
	r.session().insert("a", "one")
	r.turns(4)
	require.Empty(t, logs.All(), "it has not been lying for long")
	r.stalled = 0
	r.turns(2)
	said := logs.FilterMessageSnippet("nothing of the inbox is moved").All()
	require.Len(t, said, 1, "once a minute")
	require.Equal(t, fmt.Sprintf(`session %d of user %q, application "stranger"`, pid, r.user()), said[0].ContextMap()["holder"])
	hint := fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid)
	require.Equal(t, hint, said[0].ContextMap()["hint"])
	require.EqualValues(t, 1, r.waiting())

	r.exec(hint)
	require.Error(t, <-ended)
	r.await("the instance takes over", func() bool {
		r.turned()
		return r.waiting() == 0
	})
}

// While rows come and go there is nothing to tell.
func TestOfASequencerThatMovesRowsNothingIsTold(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	logs := r.overheard()
	r.stalled = 0
	s, _ := r.stranger()
	s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, lockID)
	for i := range 4 {
		s.exec("DELETE FROM belfry.inbox")
		s.insert("a", fmt.Sprint(i))
		r.turns(1)
	}
	require.Empty(t, logs.All())
}

func TestAnIdleStrangerWithTheLockIsEndedAndNamed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	logs := r.overheard()
	s, pid := r.stranger()
	s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, lockID)
	r.session().insert("a", "one")
	began := time.Now()
	r.await("the instance takes over", func() bool {
		r.turned()
		return r.waiting() == 0
	})
	require.Greater(t, time.Since(began), frozenAfter/2)
	said := logs.FilterMessageSnippet("frozen").All()
	require.NotEmpty(t, said)
	require.Contains(t, said[0].ContextMap()["holder"], fmt.Sprintf(`session %d of`, pid))
}

func TestAStrangerWithTheMarkIsNamed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s, pid := r.stranger()
	s.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, markID)
	_, err := r.turn(testContext(t))
	require.ErrorIs(t, err, errMarked)
	require.ErrorContains(t, err, fmt.Sprintf(`session %d of user %q, application "stranger"`, pid, r.user()))
	h, err := r.Holder(testContext(t))
	require.NoError(t, err)
	require.Equal(t, pid, h.PID, "the status names it while nobody leads")
	s.exec("SELECT pg_advisory_unlock_all()")
	r.turned()
}

func TestTheHolderOfTheLockIsKnown(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	h, err := r.Holder(testContext(t))
	require.NoError(t, err)
	require.Nil(t, h)
	s := r.session()
	for _, statement := range []string{
		// With another first number, or in the other kind of name, it is another lock.
		fmt.Sprintf("SELECT pg_advisory_lock(%d, %d)", lockClass+1, lockID),
		fmt.Sprintf("SELECT pg_advisory_lock(%d)", int64(lockClass)<<32|int64(lockID)), "SELECT pg_advisory_lock(7)",
	} {
		s.exec(statement)
		h, err = r.Holder(testContext(t))
		require.NoError(t, err)
		require.Nil(t, h, statement)
	}
	r.turned()
	h, err = r.Holder(testContext(t))
	require.NoError(t, err)
	require.Equal(t, &Holder{PID: r.leader(), User: r.user(), Application: "inbox-test"}, h)
	// A role that may see nothing of what others do sees what they are called.
	var seen Holder
	s.exec("SET ROLE belfry_consumer")
	require.NoError(t, s.QueryRow(testContext(t), sqlHolder, lockClass, []int32{lockID}).Scan(&seen.PID, &seen.User, &seen.Application))
	require.Equal(t, *h, seen)
	require.Equal(t, "nobody any more", (*Holder)(nil).String())
	require.Contains(t, (&Holder{}).String(), "pg_prepared_xacts")
	require.Contains(t, (&Holder{}).end(), "ROLLBACK PREPARED", "it has no session to end")
}

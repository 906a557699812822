package inbox

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// takeover bounds the time until another instance takes over. It is twice the expected time of 2 s.
const takeover = 4 * time.Second

// pair returns a fixture in which instance a is the sequencer and b is on standby.
func pair(t *testing.T) (r *fixture, a, b *instance) {
	t.Helper()
	r = newFixture(t)
	a, b = r.instance, newInstance(t, r.dsn, nil)
	a.start(t, r.dsn)
	enginetest.Await(t, "a leads", func() bool { return enginetest.Metric(t, a.reg, "belfry_inbox_sequencer") == 1 })
	b.start(t, r.dsn)
	return r, a, b
}

// leader returns the pid of the session with the leader lock.
func (r *fixture) leader() int64 {
	r.t.Helper()
	return r.number("SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $1::int::oid AND l.objid = $2::int::oid AND l.objsubid = 2"+
		" AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())", lockClass, leaderLock)
}

// freeze blocks an instance before its next transaction until thaw is called.
func (i *instance) freeze() (frozen <-chan struct{}, thaw func()) {
	stopped, thawed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	i.before = func([]int64) {
		once.Do(func() {
			close(stopped)
			<-thawed
		})
	}
	return stopped, sync.OnceFunc(func() { close(thawed) })
}

func TestFrozenSequencerIsReplaced(t *testing.T) {
	r := newFixture(t)
	a, b := r.instance, newInstance(t, r.dsn, nil)
	frozen, thaw := a.freeze()
	a.start(t, r.dsn)
	defer thaw()
	enginetest.Await(t, "a leads", func() bool { return enginetest.Metric(t, a.reg, "belfry_inbox_sequencer") == 1 })
	var looks resyncs
	b.bus.Subscribe(&looks)
	b.start(t, r.dsn)
	s := r.session()
	s.insert("a", "one")
	watch := stopwatch.Start(t)
	<-frozen
	s.insert("a", "two")
	enginetest.Await(t, "b takes over", func() bool { return len(r.stored("a")) == 2 })
	watch.Within(t, takeover, "b takes over")
	thaw()
	s.insert("a", "three")
	enginetest.Await(t, "the sequencer continues", func() bool { return len(r.stored("a")) == 3 })
	require.Equal(t, []string{"one", "two", "three"}, r.stored("a"))
	require.Zero(t, enginetest.Metric(t, a.reg, "belfry_inbox_sequenced_total"), "the frozen instance stored nothing after it lost the lock")
	require.Equal(t, int64(1), enginetest.Metric(t, b.reg, "belfry_inbox_takeovers_total"))
	enginetest.Await(t, "the waiting requests of b probe, because a may have committed without publishing a wake", func() bool { return looks.Load() > 0 })
}

// resyncs counts the resyncs that an instance publishes.
type resyncs struct {
	events.Nop
	atomic.Int64
}

func (r *resyncs) OnResync(string, events.Origin) { r.Add(1) }

func TestDeadSequencerIsReplaced(t *testing.T) {
	r := newFixture(t)
	a, b := r.instance, newInstance(t, r.dsn, nil)
	frozen, thaw := a.freeze()
	a.start(t, r.dsn)
	defer thaw()
	enginetest.Await(t, "a leads", func() bool { return enginetest.Metric(t, a.reg, "belfry_inbox_sequencer") == 1 })
	b.start(t, r.dsn)
	r.session().insert("a", "one")
	<-frozen
	watch := stopwatch.Start(t)
	r.exec("SELECT pg_terminate_backend($1::bigint::int)", r.leader())
	enginetest.Await(t, "b takes over", func() bool { return len(r.stored("a")) == 1 })
	watch.Within(t, takeover, "b takes over")
}

func TestStoppedSequencerHandsOver(t *testing.T) {
	r, a, b := pair(t)
	a.stop()
	enginetest.Await(t, "b leads", func() bool { return enginetest.Metric(t, b.reg, "belfry_inbox_sequencer") == 1 })
	r.session().insert("a", "one")
	// The row is stored before it is counted.
	enginetest.Await(t, "b sequences the row", func() bool { return enginetest.Metric(t, b.reg, "belfry_inbox_sequenced_total") == 1 })
	require.Zero(t, r.waiting())
}

// Logical replication fills a database without advancing its sequences. An instance advances them when
// it becomes the sequencer.
func TestATakeoverAdvancesTheIDSequences(t *testing.T) {
	r, a, b := pair(t)
	s := r.session()
	s.insert("a", "one")
	s.insert("b", "two")
	enginetest.Await(t, "the rows are moved", func() bool { return r.waiting() == 0 })
	next := r.number("SELECT last_value FROM belfry.partition_id_seq")
	require.Equal(t, int64(2), next, "a sequence that is not behind does not change")

	r.exec("ALTER SEQUENCE belfry.partition_id_seq RESTART; ALTER SEQUENCE belfry.queue_id_seq RESTART")
	r.exec("SELECT pg_terminate_backend($1::bigint::int)", r.leader())
	takeovers := func() int64 {
		return enginetest.Metric(t, a.reg, "belfry_inbox_takeovers_total") + enginetest.Metric(t, b.reg, "belfry_inbox_takeovers_total")
	}
	enginetest.Await(t, "an instance takes over", func() bool { return takeovers() == 2 })
	s.insert("c", "three")
	enginetest.Await(t, "the row is moved", func() bool { return r.waiting() == 0 })
	require.Equal(t, []string{"three"}, r.stored("c"))
	require.Equal(t, int64(3), r.number("SELECT count(DISTINCT id) FROM belfry.partition"))
	require.Greater(t, r.number("SELECT last_value FROM belfry.queue_id_seq"), int64(1))
	require.Empty(t, r.texts("SELECT unnest(belfry.advance_ids())"))
}

// A server works with a role that may not execute belfry.advance_ids. The missing right is logged.
func TestAMissingRightToAdvanceIDsIsLogged(t *testing.T) {
	r := newFixture(t)
	s := r.session()
	s.exec("SET ROLE pg_monitor")
	core, logs := observer.New(zap.WarnLevel)
	require.NoError(t, AdvanceIDs(t.Context(), s.Conn, zap.New(core)))
	require.Contains(t, logs.All()[0].Message, "GRANT EXECUTE")
}

// AdvanceIDs changes no sequence that is in use, although rows are inserted between its reads.
func TestSequencesInUseDoNotChange(t *testing.T) {
	r := newFixture(t)
	var crew sync.WaitGroup
	for range 3 {
		s := r.session()
		crew.Go(func() {
			s.exec("DO $$ BEGIN FOR i IN 1 .. 1500 LOOP INSERT INTO belfry.inbox (queue, payload) VALUES ('q', '1'); COMMIT; END LOOP; END $$")
		})
	}
	for range 300 {
		require.Empty(t, r.texts("SELECT unnest(belfry.advance_ids())"))
	}
	crew.Wait()
	require.Equal(t, int64(4500), r.number("SELECT last_value FROM belfry.inbox_id_seq"))
}

// The leader session ends during its transaction. Each row is stored once and in order.
func TestDeathDuringATransaction(t *testing.T) {
	r, _, _ := pair(t)
	s, holder := r.session(), r.session()
	s.insert("a", "zero")
	enginetest.Await(t, "the partition exists", func() bool { return r.waiting() == 0 })
	for round := range 5 {
		holder.exec("BEGIN")
		holder.exec("SELECT p.id FROM belfry.partition p FOR UPDATE")
		for i := range 10 {
			s.insert("a", fmt.Sprintf("m%d", round*10+i))
		}
		enginetest.Await(t, "the sequencer has deleted rows and waits for the partition", func() bool {
			return r.number(`SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'advisory' AND l.objid = $1::int::oid
				WHERE a.wait_event_type = 'Lock' AND a.datname = current_database()`, leaderLock) == 1
		})
		r.exec("SELECT pg_terminate_backend($1::bigint::int)", r.leader())
		holder.exec("COMMIT")
		enginetest.Await(t, "an instance continues", func() bool { return r.waiting() == 0 })
	}
	require.Equal(t, append([]string{"zero"}, numbered("m", 50)...), r.stored("a"))
}

// A sequencer that waits for the database is not frozen.
func TestSlowSequencerIsNotReplaced(t *testing.T) {
	r, _, b := pair(t)
	s, holder := r.session(), r.session()
	s.insert("a", "zero")
	enginetest.Await(t, "the partition exists", func() bool { return r.waiting() == 0 })
	leader := r.leader()
	holder.exec("BEGIN")
	holder.exec("SELECT p.id FROM belfry.partition p FOR UPDATE")
	s.insert("a", "one")
	s.exec("SELECT pg_sleep($1)", 3*frozenAfter.Seconds())
	require.Equal(t, leader, r.leader())
	holder.exec("COMMIT")
	enginetest.Await(t, "the sequencer continues", func() bool { return r.waiting() == 0 })
	require.Zero(t, enginetest.Metric(t, b.reg, "belfry_inbox_takeovers_total"))
	require.Equal(t, []string{"zero", "one"}, r.stored("a"))
}

// During a long scan the leader session is idle, but does not count as frozen. After the scan, an
// idle leader session counts as frozen.
func TestALongScanIsNotFrozen(t *testing.T) {
	r := newFixture(t)
	leader, reader := r.session(), r.session()
	leader.exec("SELECT pg_advisory_lock($1::int, $2::int)", lockClass, leaderLock)
	frozen := func() (is bool) {
		require.NoError(t, r.Pool.QueryRow(enginetest.Context(t), sqlWatch, lockClass, leaderLock, 0.2, watchLock).Scan(nil, &is, nil))
		return is
	}
	enginetest.Await(t, "the session counts as frozen", frozen)
	blocker := r.session()
	blocker.exec("SELECT pg_advisory_lock(1)")
	scanned := make(chan error, 1)
	go func() {
		opening, _, _ := strings.Cut(sqlLook, "\n")
		_, err := reader.Exec(t.Context(), opening+"\nSELECT pg_advisory_lock(1)")
		scanned <- err
	}()
	enginetest.Await(t, "a scan runs", func() bool { return !frozen() })
	blocker.exec("SELECT pg_advisory_unlock(1)")
	require.NoError(t, <-scanned)
	require.True(t, frozen(), "the scan has ended")
}

// While the listener is not proven, the sequencer scans without a notification.
func TestAnUnprovenListenerCausesPolling(t *testing.T) {
	r := newFixture(t)
	r.Proven = func() bool { return false }
	r.cfg.PollInterval = 50 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	enginetest.Await(t, "the instance leads", func() bool { return enginetest.Metric(t, r.reg, "belfry_inbox_sequencer") == 1 })
	r.session().insert("a", "one")
	enginetest.Await(t, "the row is moved", func() bool { return r.waiting() == 0 })
	stop()
	require.NoError(t, <-ended)
}

// Two instances read the same rows and one ignores the leader lock. Each row is stored once.
func TestTwoSequencersStoreEachRowOnce(t *testing.T) {
	r := newFixture(t)
	rival := newInstance(t, r.dsn, nil)
	conn, err := rival.SequencerPool.Acquire(enginetest.Context(t))
	require.NoError(t, err)
	defer conn.Release()
	rival.conn = conn
	var once sync.Once
	r.before = func([]int64) {
		once.Do(func() { // between read and move, the other sequencer moves some rows
			_, _, err := rival.scan(enginetest.Context(t), func(rows []row) error { return rival.move(context.WithoutCancel(t.Context()), rows[:3]) })
			require.NoError(t, err)
		})
	}
	s := r.session()
	// The rows have no transaction ids, because rows with transaction ids would be deduplicated anyway.
	for i := range 8 {
		s.exec(`INSERT INTO belfry.inbox (queue, partition, payload) VALUES ('q', 'a', to_json($1::int))`, i)
	}
	r.runStep()
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, r.texts("SELECT m.payload::text FROM belfry.message m ORDER BY m.seq"))
	require.Equal(t, int64(3), enginetest.Metric(t, rival.reg, "belfry_inbox_sequenced_total"))
	require.Equal(t, int64(5), enginetest.Metric(t, r.reg, "belfry_inbox_sequenced_total"))
	require.Zero(t, r.waiting())
}

// Idle instances send no query.
func TestIdleInstancesSendNoQuery(t *testing.T) {
	r, _, _ := pair(t)
	r.session().insert("a", "one")
	enginetest.Await(t, "the row is sequenced", func() bool { return r.waiting() == 0 })
	enginetest.Await(t, "no query for two watch intervals", func() bool { return r.noQueries(2 * watchInterval) })
	require.Zero(t, r.locks(watchLock, true))
}

// A row without a notification waits, and the sequencer sleeps. The instance on standby notifies
// the sequencer and does not end its session.
func TestSleepingSequencerIsNotFrozen(t *testing.T) {
	r := newFixture(t)
	a, b := r.instance, newInstance(t, r.dsn, nil)
	a.start(t, r.dsn)
	enginetest.Await(t, "a leads", func() bool { return enginetest.Metric(t, a.reg, "belfry_inbox_sequencer") == 1 })
	r.awaitSleep()
	s := r.session()
	s.exec("SET belfry.notify = off")
	s.insert("a", "one")
	enginetest.Await(t, "a has been waiting for long", func() bool {
		return r.number("SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state_change < clock_timestamp() - make_interval(secs => $2)",
			r.leader(), frozenAfter.Seconds()) == 1
	})
	require.Equal(t, int64(1), r.waiting())
	b.start(t, r.dsn)
	const sequenced = "belfry_inbox_sequenced_total"
	enginetest.Await(t, "the row is moved", func() bool { return enginetest.Metric(t, a.reg, sequenced)+enginetest.Metric(t, b.reg, sequenced) == 1 })
	require.Zero(t, enginetest.Metric(t, b.reg, sequenced))
	require.Zero(t, enginetest.Metric(t, b.reg, "belfry_inbox_takeovers_total"))
}

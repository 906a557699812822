package schedule

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

func TestAnInstantStoresOneMessage(t *testing.T) {
	f := newFixture(t)
	headers, err := queue.ParseHeaders("headers", []byte(`{"From": "{{schedule}}"}`))
	require.NoError(t, err)
	f.put(`say "hi"`, func(d *Definition) {
		d.Spec.Every, d.Partition, d.Headers, d.Delay = time.Hour, "p", headers, time.Minute
		d.Payload = []byte(`{"who": "{{schedule}}", "at": "{{scheduled_at}}", "rest": "{{other}}"}`)
	})
	require.LessOrEqual(t, f.mustStep(f.Runner), time.Until(hour(1))+time.Second)
	require.Empty(t, f.ids())
	require.Equal(t, hour(1), f.schedule(`say "hi"`).NextAt.UTC())

	f.travel(f.Runner, hour(1).Add(time.Millisecond))
	f.mustStep(f.Runner)
	f.mustStep(f.Runner)
	at := hour(1).Format(time.RFC3339)
	require.Equal(t, []string{`say "hi"@` + at}, f.ids())
	require.Equal(t, []string{`q p {"who": "say \"hi\"", "at": "` + at + `", "rest": "{{other}}"} { "from" : "say \"hi\"" } delayed`},
		f.texts(`SELECT concat_ws(' ', queue, partition, payload, headers, CASE WHEN visible_at > now() + interval '50 s' THEN 'delayed' END) FROM belfry.inbox`))
	found := f.schedule(`say "hi"`)
	require.Equal(t, hour(2), found.NextAt.UTC())
	require.Equal(t, hour(1), found.LastAt.UTC())
	require.Equal(t, f.ids()[0], found.LastTransactionID)
	require.Equal(t, int64(1), f.metric(f.Runner, "belfry_schedule_messages_total"))
}

// The dashboard learns that an instance has written the state of a schedule, also if there is no message.
func TestAWrittenStateIsReported(t *testing.T) {
	f := newFixture(t)
	reported := 0
	f.Handled = func() { reported++ }
	f.mustStep(f.Runner)
	require.Zero(t, reported)
	f.put("s", hourly)
	f.mustStep(f.Runner)
	require.Equal(t, 1, reported)
	f.mustStep(f.Runner)
	require.Equal(t, 1, reported)
}

// A clock that steps forward makes instants early. After it steps back, they do not come again.
func TestAClockThatStepsBackRepeatsNothing(t *testing.T) {
	f := newFixture(t)
	f.put("s", hourly)
	for _, at := range []time.Time{hour(1), hour(1).Add(-5 * time.Second), hour(1).Add(5 * time.Second), hour(1).Add(-2 * time.Hour)} {
		f.travel(f.Runner, at)
		f.mustStep(f.Runner)
		f.put("s", hourly) // the same again
		f.put("s", func(d *Definition) { d.Spec.Every = 30 * time.Minute })
		f.put("s", hourly)
		f.mustStep(f.Runner)
	}
	f.travel(f.Runner, hour(2))
	f.mustStep(f.Runner)
	require.Equal(t, []string{"s@" + hour(1).Format(time.RFC3339), "s@" + hour(2).Format(time.RFC3339)}, f.ids())
}

func TestMissedInstants(t *testing.T) {
	f := newFixture(t)
	for name, edit := range map[string]func(*Definition){
		"skip": func(d *Definition) { d.Missed = MissedSkip },
		"one":  func(*Definition) {},
		"all":  func(d *Definition) { d.Missed = MissedAll },
		"many": func(d *Definition) { d.Missed, d.Spec.Every = MissedAll, time.Second },
		"only": func(d *Definition) { d.Missed, d.OverlapGroup = MissedAll, "g" },
	} {
		f.put(name, func(d *Definition) { hourly(d); edit(d) })
	}
	f.travel(f.Runner, hour(3).Add(20*time.Second))
	for f.mustStep(f.Runner) == contendedDelay {
	}
	stored := func(name string) []string {
		return f.texts(`SELECT split_part(transaction_id, '@', 2) FROM belfry.inbox WHERE transaction_id LIKE $1 || '@%' ORDER BY id`, name)
	}
	one, two, three := hour(1).Format(time.RFC3339), hour(2).Format(time.RFC3339), hour(3).Format(time.RFC3339)
	require.Empty(t, stored("skip"))
	require.Equal(t, []string{three}, stored("one"))
	require.Equal(t, []string{one, two, three}, stored("all"))
	require.Equal(t, []string{three}, stored("only"), "more messages would overlap")
	require.Len(t, stored("many"), maxMissed)
	for _, name := range []string{"skip", "one", "all", "only"} {
		require.Equal(t, hour(4), f.schedule(name).NextAt.UTC(), name)
	}

	f.travel(f.Runner, hour(4).Add(2*time.Second))
	f.mustStep(f.Runner)
	require.Equal(t, []string{hour(4).Format(time.RFC3339)}, stored("skip"), "a message that is a little late is not missed")
}

// Two instances read the same instants. Both want to store them. Each instant gets one message.
func TestTwoInstancesStoreOneMessage(t *testing.T) {
	f := newFixture(t)
	other := f.runner()
	f.put("a", hourly)
	f.put("b", hourly)
	f.mustStep(f.Runner)
	for _, r := range []*Runner{f.Runner, other} {
		f.travel(r, hour(1).Add(time.Second))
	}
	f.beforeTick = func() { f.mustStep(other) }
	require.Equal(t, contendedDelay, f.mustStep(f.Runner))
	require.Len(t, f.ids(), 2)
	f.beforeTick = func() { f.put("a", hourly) } // a caller changes a schedule between both statements
	f.travel(f.Runner, hour(2).Add(time.Second))
	require.Equal(t, contendedDelay, f.mustStep(f.Runner))
	f.beforeTick = func() {}
	f.mustStep(f.Runner)
	require.Len(t, f.ids(), 4)
}

// The connection dies in the transaction that stores a message. Nothing of the transaction stays, and the next step stores the
// message.
func TestACrashInTheTransactionLosesNothing(t *testing.T) {
	f := newFixture(t)
	f.put("s", hourly)
	f.mustStep(f.Runner)
	f.travel(f.Runner, hour(1))
	blocker := enginetest.Connect(t, f.dsn)
	enginetest.Exec(t, blocker, `BEGIN`)
	enginetest.Exec(t, blocker, `LOCK TABLE belfry.inbox IN SHARE MODE`)
	failed := make(chan error, 1)
	go func() {
		_, err := f.step(context.WithoutCancel(t.Context()))
		failed <- err
	}()
	enginetest.Await(t, "the statement waits and its session has ended", func() bool {
		return enginetest.Value[bool](t, f.pool, `SELECT coalesce(bool_or(pg_terminate_backend(pid)), false) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '-- Handles instants of schedules%' AND datname = current_database()`)
	})
	require.Error(t, <-failed)
	enginetest.Exec(t, blocker, `ROLLBACK`)
	require.Empty(t, f.ids())
	require.True(t, f.schedule("s").LastAt.IsZero())
	f.mustStep(f.Runner)
	require.Equal(t, []string{"s@" + hour(1).Format(time.RFC3339)}, f.ids())
}

// The first instance hangs between both statements. The second one handles the instant a moment later, and the third one does
// nothing.
func TestAnotherInstanceTakesOver(t *testing.T) {
	f := newFixture(t)
	second, third := f.runner(), f.runner()
	frozen, release := make(chan struct{}), make(chan struct{})
	at := time.Now().Add(2 * time.Second)
	f.put("s", func(d *Definition) { d.Spec.At = at })
	f.mustStep(f.Runner)
	f.beforeTick = sync.OnceFunc(func() {
		close(frozen)
		<-release
	})
	for _, r := range []*Runner{f.Runner, second, third} {
		f.run(r)
	}
	t.Cleanup(func() { close(release) }) // before the runners are stopped
	<-frozen
	require.Eventually(t, func() bool { return len(f.ids()) == 1 }, enginetest.Patience, 10*time.Millisecond)
	late := time.Duration(enginetest.Value[int64](t, f.pool, `SELECT (extract(epoch FROM i.inserted_at - s.at) * 1000000)::bigint
		FROM belfry.inbox i, belfry.schedule s`)) * time.Microsecond
	require.GreaterOrEqual(t, late, standbyDelay)
	require.Less(t, late, 2*time.Second)
	require.Equal(t, int64(1), f.metric(second, "belfry_schedule_messages_total"))
}

func TestEachInstanceWaitsForTheInstancesBeforeIt(t *testing.T) {
	f := newFixture(t)
	runners := []*Runner{f.Runner}
	for range 5 {
		runners = append(runners, f.runner())
	}
	for i, want := range []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 1500 * time.Millisecond} {
		require.Equal(t, want, runners[i].delay())
	}
	runners[4].Proven = func() bool { return false } // it does not know the others
	require.Zero(t, runners[4].delay())
}

// A schedule that a transaction makes wakes the instance at the commit.
func TestACommitWakesTheRunner(t *testing.T) {
	f := newFixture(t)
	sender, err := listen.NewSender(f.dsn, f.Instance, listen.DefaultConfig(), func() {}, zap.NewNop())
	require.NoError(t, err)
	listening := make(chan struct{})
	listener, err := listen.NewListener(f.dsn, sender, listen.DefaultConfig(), listen.Callbacks{
		OnReady: func(listen.Notification) {}, OnCreated: func() {}, OnLook: func(string) {}, OnResync: func(string) {},
		OnState: func(listen.State) {}, OnInbox: func() {}, OnRevocation: func() {}, OnSetting: func() {}, OnSchedule: f.OnSchedule,
		OnSQLWaiter: func(queue.SQLWaiter) {}, OnListening: sync.OnceFunc(func() { close(listening) }), OnLive: func(string) {}, OnPeerLeft: func(queue.ID) {},
	}, zap.NewNop())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{sender.Run, listener.Run} {
		all.Go(func() { _ = run(ctx) })
	}
	t.Cleanup(func() { cancel(); all.Wait() })
	<-listening
	f.run(f.Runner)
	session := enginetest.Connect(t, f.dsn)
	enginetest.Exec(t, session, `BEGIN`)
	enginetest.Exec(t, session, `SELECT belfry.schedule('s', 'q', '{}', at => clock_timestamp() + interval '500 ms')`)
	enginetest.Exec(t, session, `COMMIT`)
	require.Eventually(t, func() bool { return len(f.ids()) == 1 }, enginetest.Patience, 10*time.Millisecond)
	found := f.schedule("s")
	require.Equal(t, found.Spec.At, found.LastAt)
	require.True(t, found.NextAt.IsZero())
	require.Less(t, enginetest.Value[float64](t, f.pool, `SELECT extract(epoch FROM i.inserted_at - s.at)::float FROM belfry.inbox i, belfry.schedule s`), 1.0)
}

// An expression that never runs is an error in its row. Other schedules continue. A change heals it.
func TestABadExpressionIsAnErrorInItsRow(t *testing.T) {
	f := newFixture(t)
	f.exec(`SELECT belfry.schedule('bad', 'q', '{}', cron => '0 8 30 2 *')`)
	f.put("good", hourly)
	f.mustStep(f.Runner)
	require.Contains(t, f.schedule("bad").Error, "never runs")
	f.travel(f.Runner, hour(1))
	require.Greater(t, f.mustStep(f.Runner), time.Minute)
	require.Len(t, f.ids(), 1)
	f.put("bad", hourly)
	require.Empty(t, f.schedule("bad").Error)
	f.mustStep(f.Runner)
	require.Equal(t, hour(2), f.schedule("good").NextAt.UTC())
	require.False(t, f.schedule("bad").NextAt.IsZero())
}

// A message that the database refuses stops its own schedule only.
func TestARefusedMessageStopsOnlyItsSchedule(t *testing.T) {
	f := newFixture(t)
	f.exec(`ALTER TABLE belfry.inbox ADD CONSTRAINT no_bad CHECK (queue <> 'bad')`)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		f.put(name, func(d *Definition) {
			hourly(d)
			if name == "c" {
				d.Queue = "bad"
			}
		})
	}
	f.travel(f.Runner, hour(1))
	f.mustStep(f.Runner)
	require.Len(t, f.ids(), 4)
	require.Contains(t, f.schedule("c").Error, "no_bad")
	require.True(t, f.schedule("c").LastAt.IsZero())
	f.exec(`ALTER TABLE belfry.inbox DROP CONSTRAINT no_bad`)
	f.put("c", func(d *Definition) { hourly(d); d.Queue = "bad" })
	f.mustStep(f.Runner)
	require.Len(t, f.ids(), 5, "the instant was not forgotten")
}

func TestCountsOfSchedules(t *testing.T) {
	f := newFixture(t)
	counts := func() Counts {
		t.Helper()
		found, err := f.Counts(enginetest.Context(t))
		require.NoError(t, err)
		return found
	}
	f.put("good", hourly)
	f.put("bad", hourly)
	f.put("paused", hourly)
	_, err := f.SetPaused(enginetest.Context(t), "paused", true, "")
	require.NoError(t, err)
	require.Less(t, counts().Late, time.Minute, "the instants are not computed yet, for less than a minute")
	f.exec(`UPDATE belfry.schedule SET changed_at = changed_at - interval '1 minute' WHERE name = 'good'`)
	require.Greater(t, counts().Late, time.Minute)
	f.mustStep(f.Runner)
	require.Equal(t, Counts{}, counts(), "the next instant comes later")
	f.exec(`UPDATE belfry.schedule SET cron = '99 * * * *', every_seconds = NULL, due_at = '-infinity' WHERE name = 'bad'`)
	f.mustStep(f.Runner)
	require.Equal(t, Counts{Errors: 1}, counts())
	f.exec(`UPDATE belfry.schedule SET due_at = statement_timestamp() - interval '90 s' WHERE name = 'good'`)
	require.InDelta(t, 90, counts().Late.Seconds(), 30)
	f.mustStep(f.Runner)
	require.Equal(t, Counts{Errors: 1}, counts())
}

// The time of a slow statement does not make the next read come before its instant.
func TestASlowStatementCausesNoEarlyRead(t *testing.T) {
	f := newFixture(t)
	var reads atomic.Int64
	f.Peers = func() []queue.ID { // each read asks for the peers
		reads.Add(1)
		return nil
	}
	f.beforeTick = func() { enginetest.Exec(t, f.pool, `SELECT pg_sleep(0.3)`) }
	f.run(f.Runner)
	require.Eventually(t, func() bool { return reads.Load() == 1 }, enginetest.Patience, time.Millisecond)
	f.put("s", func(d *Definition) { d.Spec.At = time.Now().Add(time.Second) })
	f.OnSchedule()
	require.Eventually(t, func() bool { return len(f.ids()) == 1 }, enginetest.Patience, 10*time.Millisecond)
	require.Equal(t, int64(3), reads.Load(), "one read at the start, one after the change, and one at the instant")
}

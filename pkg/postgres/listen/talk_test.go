package listen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

func TestAMessageReachesTheOthersAndNotItsSender(t *testing.T) {
	dsn := database(t)
	a, b := startProven(t, dsn, dsn, listen.DefaultConfig()), startProven(t, dsn, dsn, listen.DefaultConfig())
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	a.sender.Send(listen.Ready(12, 345, at), listen.Ready(12, 345, at.Add(time.Hour)))
	require.Equal(t, listen.Notification{Instance: a.id, Ready: []queue.Ready{listen.Ready(12, 345, at)}}, b.waitMessage(t))
	a.sender.SendCreated()
	require.Equal(t, listen.Notification{CatalogChanged: true}, b.waitMessage(t))

	// The answer of b follows on the same channel, so a has heard its own messages by then.
	b.sender.SendResync()
	require.Equal(t, "another instance asked for it", a.waitResync(t).resync)
	a.stopSender() // the counters change after the answer of Postgres, and b may receive the message earlier
	require.EqualValues(t, 3, a.sender.Counts().EntriesIn)
	require.EqualValues(t, 2, a.sender.Counts().EntriesOut)
}

// Payloads for watchers arrive in their order, also at the instance that sent them. A goodbye is reported.
func TestPayloadsForWatchersArrive(t *testing.T) {
	dsn := database(t)
	a, b := startProven(t, dsn, dsn, listen.DefaultConfig()), startProven(t, dsn, dsn, listen.DefaultConfig())
	a.sender.SendLive("one")
	a.sender.SendLive("two")
	for _, i := range []*instance{a, b} {
		for _, want := range []string{"one", "two"} {
			e := i.next(t)
			for e.live == "" {
				e = i.next(t)
			}
			require.Equal(t, want, e.live)
		}
	}
	a.stopSender()
	e := b.next(t)
	for e.left.IsZero() {
		e = b.next(t)
	}
	require.Equal(t, a.id, e.left)
}

func TestManyEntriesArriveInOneCommit(t *testing.T) {
	dsn := database(t)
	a, b := startProven(t, dsn, dsn, listen.DefaultConfig()), startProven(t, dsn, dsn, listen.DefaultConfig())
	const many = 20_000
	var entries []queue.Ready
	for p := range int64(many) {
		entries = append(entries, listen.Ready(1, p, time.Time{}))
	}
	a.sender.Send(entries...)
	heard := map[int64]bool{}
	for len(heard) < many {
		message := b.waitMessage(t)
		require.Len(t, message.Ready, message.Hints())
		for _, e := range message.Ready {
			heard[e.Partition] = true
		}
	}
	a.stopSender()
	require.EqualValues(t, 3, a.sender.Counts().Flushes, "a canary, the entries, and the goodbye")
}

func TestDatabasesDoNotHearEachOther(t *testing.T) {
	first, second := database(t), pgtest.Database(t)
	a, b := startProven(t, first, first, listen.DefaultConfig()), startProven(t, second, second, listen.DefaultConfig())
	c := startProven(t, second, second, listen.DefaultConfig())
	a.sender.SendResync()
	c.sender.SendCreated()
	require.True(t, b.next(t).message.CatalogChanged)
	require.Zero(t, a.listener.Peers())
}

func TestAnUnreadablePayloadRequestsAResync(t *testing.T) {
	dsn := database(t)
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	conn := connect(t, dsn)
	exec(t, conn, "SELECT pg_notify($1, '2;a format of the future')", listen.Channel)
	require.Equal(t, `a notification was not understood: reading the notification "2;a format of the future": its version is not 1`, a.next(t).resync)
	exec(t, conn, "SELECT pg_notify($1, '1;i=00000000-0000-0000-0000-000000000000;r=7/0@0')", listen.Channel)
	require.Equal(t, []queue.Ready{listen.Ready(7, 0, time.Time{})}, a.next(t).message.Ready)
	require.True(t, a.listener.Proven())
}

func TestATerminatedSenderSendsAgain(t *testing.T) {
	dsn := database(t)
	a, b := startProven(t, dsn, dsn, listen.DefaultConfig()), prepare(t, dsn, dsn, listen.DefaultConfig())
	b.sender.Send(listen.Ready(1, 1, time.Time{}))
	run(t, b.sender.Run)
	require.Equal(t, b.id, a.waitMessage(t).Instance)
	conn := connect(t, dsn)
	exec(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'belfry-notify' AND datname = current_database()`)
	b.sender.Send(listen.Ready(1, 2, time.Time{}))
	require.Equal(t, []queue.Ready{listen.Ready(1, 2, time.Time{})}, a.waitMessage(t).Ready)
	require.Zero(t, a.listener.Peers(), "without a heartbeat b is not a peer")
}

// TestASilentPeerExpires tests a peer that sends no goodbye.
func TestAPeerWithAGoodbyeIsForgotten(t *testing.T) {
	dsn := database(t)
	cfg := listen.DefaultConfig()
	a := startProven(t, dsn, dsn, cfg)
	b := startProven(t, dsn, dsn, cfg)
	cfg.NotifyInterval = time.Hour // after the first canary, c sends nothing before its goodbye
	c := startProven(t, dsn, dsn, cfg)
	require.Eventually(t, func() bool { return a.listener.Peers() == 2 }, patience, 10*time.Millisecond)
	require.ElementsMatch(t, []queue.ID{b.id, c.id}, a.listener.PeerIDs())
	c.stopListener()
	c.sender.Send(listen.Ready(1, 2, time.Time{}))
	c.stopSender()
	var last listen.Notification
	for !last.Goodbye {
		last = a.waitMessage(t)
	}
	require.Equal(t, c.id, last.Instance)
	require.Equal(t, []queue.Ready{listen.Ready(1, 2, time.Time{})}, last.Ready, "the goodbye comes with the last entries")
	require.Equal(t, []queue.ID{b.id}, a.listener.PeerIDs())
}

func TestInvalidURLsAreErrors(t *testing.T) {
	t.Parallel()
	cfg := listen.DefaultConfig()
	_, err := listen.NewSender("postgres://u:secret@h:port/db", queue.NewID(), cfg, nil, zap.NewNop())
	require.ErrorContains(t, err, "reading the URL for notifications")
	require.NotContains(t, err.Error(), "secret")
	_, err = listen.NewListener("postgres://u:secret@h:port/db", nil, cfg, listen.Callbacks{}, zap.NewNop())
	require.ErrorContains(t, err, "reading database.listen_url")
	require.NotContains(t, err.Error(), "secret")
}

func TestStoppingLogsNothing(t *testing.T) {
	dsn := database(t)
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	a.stopListener()
	a.stopSender()
	require.Equal(t, listen.StateStopped, a.next(t).state)
	require.False(t, a.listener.Proven())
	require.Zero(t, a.logged(zapcore.WarnLevel)+a.logged(zapcore.ErrorLevel), "%v", a.logs.All())
}

// An instance that is alone sends no hints. An instance that starts then gets a resync, because it may have missed hints. The new
// instance receives all later hints.
func TestNoHintsAreSentWhileNoOtherInstanceIsThere(t *testing.T) {
	dsn := database(t)
	cfg := listen.DefaultConfig()
	a := startProven(t, dsn, dsn, cfg)
	a.listener.QuietFor(cfg.PeerTimeout)
	for range 100 {
		a.sender.Send(listen.Ready(1, 1, time.Time{}))
		a.sender.SendCreated()
	}
	require.EqualValues(t, 200, a.sender.Stats.Withheld.Load())
	require.Zero(t, a.sender.Counts().EntriesIn)

	b := start(t, dsn, dsn, cfg)
	for b.waitResync(t).resync != "another instance asked for it" {
	}
	a.sender.Send(listen.Ready(1, 2, time.Time{}))
	require.Equal(t, []queue.Ready{listen.Ready(1, 2, time.Time{})}, b.waitMessage(t).Ready)
}

// Notifications of any role make instances look at once, then at a limited rate, and once more after the last notification. These
// notifications do not end the proof. The SQL expressions make a payload from the number i.
// TestAPacedCallComesAfterTheLastRequest checks the pace.
func TestManyNotificationsRequestFewLooks(t *testing.T) {
	t.Parallel()
	const many, bursts = 2_000, 10
	for name, c := range map[string]struct {
		payload    string
		interval   time.Duration
		burst      int
		unreadable int
	}{
		"unreadable": {`'garbage ' || i`, listen.LookInterval, listen.LookBurst, many},
		"forged":     {`'1;i=00000000-0000-0000-0000-000000000001;c=' || i || ';all'`, listen.LookInterval, listen.LookBurst, many},
		"resync":     {`'1;i=00000000-0000-0000-0000-000000000000;c=' || i || ';all'`, listen.LookInterval, listen.LookBurst, 0},
		"created":    {`'1;i=00000000-0000-0000-0000-000000000000;c=' || i || ';born'`, listen.CreatedInterval, listen.CreatedBurst, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := database(t)
			a := startProven(t, dsn, dsn, listen.DefaultConfig())
			conn := connect(t, dsn)
			watch, began := stopwatch.Start(t), time.Now()
			var last time.Time
			for burst := range bursts {
				last = time.Now()
				exec(t, conn, `SELECT count(pg_notify($1, `+c.payload+`)) FROM generate_series($2::int, $3::int) i`,
					listen.Channel, burst*many/bursts+1, (burst+1)*many/bursts)
			}
			exec(t, conn, `SELECT pg_notify($1, '1;i=00000000-0000-0000-0000-000000000000;r=7/0@0')`, listen.Channel)
			var calls []time.Time
			for heard := false; !heard || calls[len(calls)-1].Before(last); {
				if e := a.next(t); e.message.Ready != nil {
					heard = true
				} else {
					calls = append(calls, e.at)
				}
			}
			require.Less(t, calls[0].Sub(began), watch.Allowed(time.Second), "the first call does not wait")
			most := c.burst + 1 + int(calls[len(calls)-1].Sub(began)/c.interval)
			require.LessOrEqual(t, len(calls), most)
			require.EqualValues(t, c.unreadable, a.listener.Unreadable())
			require.True(t, a.listener.Proven())
			require.Equal(t, min(c.unreadable, 1), a.logged(zapcore.WarnLevel), "one log line a minute")
		})
	}
}

package listen_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience is how long a test waits for an event. It is far above every tested limit. Tests of a limit measure the time
// themselves.
const patience = 30 * time.Second

// fastCanaries returns a configuration with short canary intervals.
func fastCanaries() listen.Config {
	cfg := listen.DefaultConfig()
	cfg.CanaryInterval, cfg.CanaryTimeout = 300*time.Millisecond, 300*time.Millisecond
	return cfg
}

// database opens a database for a test, and makes the test parallel.
func database(t *testing.T) (dsn string) {
	t.Helper()
	t.Parallel()
	return pgtest.Database(t)
}

// event is one call of a callback: a message, a resync or a state.
type event struct {
	at      time.Time
	message listen.Notification
	resync  string
	state   listen.State
	live    string
	left    queue.ID
}

// instance is a sender and a listener, like those of one process.
type instance struct {
	id       queue.ID
	sender   *listen.Sender
	listener *listen.Listener
	events   chan event
	waiters  chan queue.SQLWaiter // the zero value stands for OnListening
	logs     *observer.ObservedLogs

	stopListener, stopSender func()
}

// start runs an instance until the end of the test. Listener and sender may have different URLs.
func start(t *testing.T, listenURL, sendURL string, cfg listen.Config) *instance {
	t.Helper()
	i := prepare(t, listenURL, sendURL, cfg)
	i.stopSender = run(t, i.sender.Run)
	i.stopListener = run(t, i.listener.Run)
	return i
}

// startProven calls start and waits until the listener is proven.
func startProven(t *testing.T, listenURL, sendURL string, cfg listen.Config) *instance {
	t.Helper()
	i := start(t, listenURL, sendURL, cfg)
	i.waitState(t, listen.StateProven)
	require.True(t, i.listener.Proven())
	return i
}

func prepare(t *testing.T, listenURL, sendURL string, cfg listen.Config) *instance {
	t.Helper()
	require.NoError(t, cfg.Validate())
	core, logs := observer.New(zapcore.DebugLevel)
	i := &instance{id: queue.NewID(), events: make(chan event, 10_000), waiters: make(chan queue.SQLWaiter, 10_000), logs: logs}
	put := func(e event) {
		e.at = time.Now()
		i.events <- e
	}
	var err error
	i.sender, err = listen.NewSender(sendURL, i.id, cfg, func() {}, zap.New(core))
	require.NoError(t, err)
	i.listener, err = listen.NewListener(listenURL, i.sender, cfg, listen.Callbacks{
		OnReady:      func(m listen.Notification) { put(event{message: m}) },
		OnCreated:    func() { put(event{message: listen.Notification{CatalogChanged: true}}) },
		OnResync:     func(reason string) { put(event{resync: reason}) },
		OnLook:       func(reason string) { put(event{resync: reason}) },
		OnState:      func(s listen.State) { put(event{state: s}) },
		OnInbox:      func() {},
		OnLive:       func(payload string) { put(event{live: payload}) },
		OnPeerLeft:   func(id queue.ID) { put(event{left: id}) },
		OnRevocation: func() {}, OnSetting: func() {}, OnSchedule: func() {},
		OnSQLWaiter: func(w queue.SQLWaiter) { i.waiters <- w },
		OnListening: func() { i.waiters <- queue.SQLWaiter{} },
	}, zap.New(core))
	require.NoError(t, err)
	return i
}

// run runs a loop until stop is called or the test ends. stop waits until the loop has returned.
func run(t *testing.T, loop func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- loop(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// next returns the next event.
func (i *instance) next(t *testing.T) event {
	t.Helper()
	select {
	case e := <-i.events:
		return e
	case <-time.After(patience):
		state, since := i.listener.State()
		t.Fatalf("nothing happened; the listener is %s, last proven %s ago; logs: %v", state, since, i.logs.All())
		return event{}
	}
}

// waitState drops events until the listener has the wanted state.
func (i *instance) waitState(t *testing.T, want listen.State) event {
	t.Helper()
	for {
		if e := i.next(t); e.state == want {
			return e
		}
	}
}

// waitMessage drops events until a message arrives.
func (i *instance) waitMessage(t *testing.T) listen.Notification {
	t.Helper()
	for {
		if e := i.next(t); e.message.Hints() > 0 {
			return e.message
		}
	}
}

// waitResync drops events until a resync arrives.
func (i *instance) waitResync(t *testing.T) event {
	t.Helper()
	for {
		if e := i.next(t); e.resync != "" {
			return e
		}
	}
}

// logged returns the number of log lines of a level.
func (i *instance) logged(level zapcore.Level) int { return i.logs.FilterLevelExact(level).Len() }

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // some tests end the session on purpose
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// terminate ends the sessions with an application name in the database of conn.
func terminate(t *testing.T, conn *pgx.Conn, name string) {
	t.Helper()
	var ended int
	require.NoError(t, conn.QueryRow(t.Context(),
		`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()`,
		name).Scan(&ended))
	require.Equal(t, 1, ended, "one connection called %s", name)
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, listen.DefaultConfig().Validate())
}

func TestValidateNamesEveryMistake(t *testing.T) {
	t.Parallel()
	err := listen.Config{CanaryTimeout: -time.Second}.Validate()
	for _, key := range []string{"canary_interval", "canary_timeout", "notify_interval", "stop_timeout", "peer_timeout"} {
		require.ErrorContains(t, err, "listen."+key+" is ")
	}
	cfg := listen.DefaultConfig()
	cfg.PeerTimeout = cfg.CanaryInterval
	require.ErrorContains(t, cfg.Validate(), "it must be above listen.canary_interval (10s)")
}

package listen

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgxlisten"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// State says how far the listener can be trusted.
type State string

// The states of a listener. Only in StateProven does silence mean that nothing
// happened; in every other one look at the tables.
const (
	// StateStarting: no connection has been proven yet, and none has failed.
	StateStarting State = "starting"
	// StateProven: the latest canary was heard in time.
	StateProven State = "proven"
	// StateReconnecting: there is no connection, or it is not proven yet, or
	// canaries cannot be sent.
	StateReconnecting State = "reconnecting"
	// StateDeaf: LISTEN succeeds and nothing is heard, as behind a pooler in
	// transaction mode. It is tried again slowly.
	StateDeaf State = "deaf"
	// StateStopped: Run has ended.
	StateStopped State = "stopped"
)

const (
	minReconnectDelay = 100 * time.Millisecond
	maxReconnectDelay = time.Second
	// maxDeafIntervals caps the delay between tries of a deaf listener, counted
	// in canary intervals, of which the first delay is one.
	maxDeafIntervals = 6
)

// Callbacks are told what the listener hears. They are called one at a time, from
// the goroutine that reads the connection or the one that watches it, so they must
// be quick: decode, announce, return. They may call the methods of the Listener.
type Callbacks struct {
	// OnMessage gets what another instance said; there is at least one entry.
	OnMessage func(Message)
	// OnResync is called when something may have been missed; reason is for the
	// log. What was heard before says nothing about it: look at the tables.
	OnResync func(reason string)
	// OnState is called at every change of the state. It may be nil.
	OnState func(State)
	// OnInbox is called when rows may have been committed to belfry.inbox: at each
	// notification of its trigger, and each time LISTEN has come into force. It may
	// be nil.
	OnInbox func()
	// SQLWaiters are told what consumers in SQL wait for. It may be nil.
	SQLWaiters SQLWaiterSink
}

// SQLWaiterSink are told what consumers in SQL wait for.
type SQLWaiterSink interface {
	// Await gets one wish.
	Await(wish queue.SQLWaiter)
	// AskAgain is called each time LISTEN has come into force: what was said before
	// was not heard.
	AskAgain()
}

// Listener hears what other instances say. Its methods may be called from several
// goroutines.
type Listener struct {
	cfg       Config
	log       *zap.Logger
	config    *pgx.ConnConfig
	sender    *Sender
	callbacks Callbacks
	calls     sync.Mutex // held while a callback runs and while the state changes
	peers     *peers

	reconnect, deafRetry backoff.Policy
	reader               reader
	listening            chan *session // LISTEN is in force; read loop to watch loop
	heard                chan uint64   // the latest canary of ours; read loop to watch loop

	mu         sync.Mutex
	state      State
	started    time.Time // of Run
	lastProof  time.Time
	proven     atomic.Bool // state is StateProven; written under mu
	reconnects atomic.Int64
}

// NewListener returns a Listener for the database at url, which must lead directly
// to Postgres: LISTEN does not work through a pooler in transaction mode. sender
// sends the canaries, over its own connection; its Run must be running for the
// listener to be proven. An error means that url cannot be read.
func NewListener(url string, sender *Sender, cfg Config, callbacks Callbacks, log *zap.Logger) (*Listener, error) {
	config, err := parse(url, "belfry-listen")
	if err != nil {
		return nil, fmt.Errorf("reading database.listen_url: %w", err)
	}
	l := &Listener{
		cfg: cfg, log: log, config: config, sender: sender, callbacks: callbacks, peers: newPeers(cfg.PeerTimeout),
		reconnect: backoff.Policy{Initial: minReconnectDelay, Max: maxReconnectDelay, Threshold: 1, Multiplier: 2},
		deafRetry: backoff.Policy{
			Initial: cfg.CanaryInterval, Max: maxDeafIntervals * cfg.CanaryInterval, Threshold: 1, Multiplier: 2,
		},
		listening: make(chan *session), heard: make(chan uint64, 1),
		state: StateStarting,
	}
	l.reader = reader{Listener: l}
	return l, nil
}

// State returns the state and how long ago the last proof was; before the first
// one, how long ago Run was called.
func (l *Listener) State() (state State, sinceLastProof time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := l.lastProof
	if since.IsZero() {
		since = l.started
	}
	if since.IsZero() {
		return l.state, 0
	}
	return l.state, time.Since(since)
}

// Proven says whether the state is StateProven. It costs one atomic read.
func (l *Listener) Proven() bool { return l.proven.Load() }

// Reconnects returns how many times LISTEN came into force after the first time.
func (l *Listener) Reconnects() int64 { return max(0, l.reconnects.Load()-1) }

// Peers returns the other instances that are alive, as far as is heard.
func (l *Listener) Peers() []Peer { return l.peers.list() }

// Run listens until ctx ends and then returns nil. Connections that break are made
// anew, so every other end is a mistake in the program. It must be called only
// once. The goodbye to the others is the sender's; see Sender.Run.
func (l *Listener) Run(ctx context.Context) error {
	l.mu.Lock()
	l.started = time.Now()
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { l.watch(ctx) })
	library := pgxlisten.Listener{
		Connect:  l.reader.connect,
		LogError: l.reader.ended,
		// The library waits equally long every time; connect waits instead.
		ReconnectDelay: -1,
	}
	library.Handle(Channel, handler{&l.reader})
	if l.callbacks.OnInbox != nil {
		library.Handle(InboxChannel, inboxHandler{l})
	}
	if l.callbacks.SQLWaiters != nil {
		library.Handle(AwaitChannel, wishHandler{l})
	}
	err := library.Listen(ctx)
	l.reader.discard(ctx)
	stopping := ctx.Err() != nil
	cancel()
	watching.Wait()
	l.change(func(State) State { return StateStopped })
	if stopping {
		return nil
	}
	return fmt.Errorf("listening on channel %s: %w", Channel, err)
}

// change moves the state to what next says, and tells whom it concerns. next runs
// with mu held.
func (l *Listener) change(next func(now State) State) {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.mu.Lock()
	before := l.state
	l.state = next(before)
	now := l.state
	l.proven.Store(now == StateProven)
	l.mu.Unlock()
	if now != before && l.callbacks.OnState != nil {
		l.callbacks.OnState(now)
	}
}

// prove records a proof and returns the state before it and how long ago the
// proof before it was.
func (l *Listener) prove() (before State, gap time.Duration) {
	before, gap = l.State()
	l.mu.Lock()
	l.lastProof = time.Now()
	l.mu.Unlock()
	l.change(func(State) State { return StateProven })
	return before, gap
}

func (l *Listener) doubt(reason string) {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.OnResync(reason)
}

func (l *Listener) inbox() {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.OnInbox()
}

func (l *Listener) wish(payload string) {
	w, err := DecodeSQLWaiter(payload)
	if err != nil {
		l.log.Debug("what a consumer in SQL waits for was not understood", zap.Error(err)) // anybody may say it
		return
	}
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.SQLWaiters.Await(w)
}

func (l *Listener) message(m Message) {
	l.calls.Lock()
	defer l.calls.Unlock()
	l.callbacks.OnMessage(m)
}

package listen

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// State says whether notifications reach the listener.
type State string

// The states of a listener. If no notification arrives in StateProven, nothing happened. In every other state, the caller must
// read the tables.
const (
	StateStarting State = "starting" // the first connection is neither proven nor failed yet
	StateProven   State = "proven"   // the latest canary was heard in time
	// StateReconnecting: there is no connection, or it is not proven yet, or canaries
	// cannot be sent.
	StateReconnecting State = "reconnecting"
	// StateDeaf: LISTEN succeeds but no notification arrives, for example behind a pooler in transaction mode. The listener tries
	// again slowly.
	StateDeaf    State = "deaf"
	StateStopped State = "stopped" // Run has returned
)

const (
	minReconnectDelay = 100 * time.Millisecond
	maxReconnectDelay = time.Second
	// maxUnheardIntervals is the longest delay between the attempts in StateDeaf, as a number of canary intervals. The first delay
	// is one canary interval.
	maxUnheardIntervals = 6
)

// Listener receives the notifications of other instances. It is safe for concurrent use.
type Listener struct {
	cfg       Config
	log       *zap.Logger
	config    *pgx.ConnConfig
	sender    *Sender
	callbacks Callbacks
	peers     *peers

	reconnect, unheardRetry backoff.Policy
	reader                  reader
	listening               chan *session // the read loop sends the session to the watch loop when LISTEN has taken effect
	heard                   chan uint64   // the read loop sends the latest own canary to the watch loop
	created, look           *pacedCall    // OnCreated and OnLook
	lastCanary              atomic.Uint64 // number of the latest canary; written only by the watch loop
	decided                 chan struct{} // see Decided

	mu         sync.Mutex
	state      State
	started    time.Time // start of Run
	lastProof  time.Time
	proven     atomic.Bool // state is StateProven; written under mu
	reconnects atomic.Int64
	unreadable atomic.Int64
}

// NewListener returns a Listener for the database at url. url must lead directly to
// Postgres, because LISTEN does not work through a pooler in transaction mode. sender
// sends the canaries over its own connection: the listener is proven only while
// Sender.Run runs. An error means that url is invalid.
func NewListener(url string, sender *Sender, cfg Config, callbacks Callbacks, log *zap.Logger) (*Listener, error) {
	config, err := parse(url, "belfry-listen")
	if err != nil {
		return nil, fmt.Errorf("reading database.listen_url: %w", err)
	}
	l := &Listener{
		cfg: cfg, log: log, config: config, sender: sender, callbacks: callbacks, peers: newPeers(cfg.PeerTimeout),
		reconnect: backoff.Policy{Initial: minReconnectDelay, Max: maxReconnectDelay, Threshold: 1, Multiplier: 2},
		unheardRetry: backoff.Policy{
			Initial: cfg.CanaryInterval, Max: maxUnheardIntervals * cfg.CanaryInterval, Threshold: 1, Multiplier: 2,
		},
		listening: make(chan *session), heard: make(chan uint64, 1),
		created: newPacedCall(createdInterval, createdBurst, func(string) { callbacks.OnCreated() }),
		look:    newPacedCall(lookInterval, lookBurst, func(reason string) { callbacks.OnLook(reason) }),
		state:   StateStarting, decided: make(chan struct{}),
	}
	l.reader = reader{Listener: l, lastNumber: map[queue.ID]uint64{}}
	sender.alone, sender.newKey = l.peers.alone, callbacks.OnListening
	return l, nil
}

// State returns the state and the time since the last proof. Before the first proof it
// returns the time since the start of Run.
func (l *Listener) State() (state State, sinceLastProof time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := cmp.Or(l.lastProof, l.started)
	if since.IsZero() {
		return l.state, 0
	}
	return l.state, time.Since(since)
}

// Decided returns a channel that is closed when the state is no longer StateStarting: the first connection is proven or has
// failed, or Run has returned.
func (l *Listener) Decided() <-chan struct{} { return l.decided }

// Proven reports whether the state is StateProven. It costs one atomic read.
func (l *Listener) Proven() bool { return l.proven.Load() }

// Reconnects returns how often LISTEN has taken effect again after the first time.
func (l *Listener) Reconnects() int64 { return max(0, l.reconnects.Load()-1) }

// Unreadable returns how many notifications could not be read or are forged. Every role that can connect can send such
// notifications.
func (l *Listener) Unreadable() int64 { return l.unreadable.Load() }

// Peers returns the number of other live instances.
func (l *Listener) Peers() int { return l.peers.count() }

// PeerIDs returns the ids of the other live instances, in order.
func (l *Listener) PeerIDs() []queue.ID { return l.peers.ids() }

// Run listens until ctx ends and then returns nil. Run replaces broken connections, so an error of Run is a mistake in the
// program. It must be called only once. Sender.Run sends the goodbye to the other instances.
func (l *Listener) Run(ctx context.Context) error {
	l.mu.Lock()
	l.started = time.Now()
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { l.watch(ctx) })
	err := l.library().Listen(ctx)
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

// change sets the state to the result of next and calls OnState if the state differs. change holds mu while it calls next.
func (l *Listener) change(next func(now State) State) {
	l.mu.Lock()
	before := l.state
	l.state = next(before)
	now := l.state
	if before == StateStarting && now != StateStarting {
		close(l.decided)
	}
	l.proven.Store(now == StateProven)
	if (now == StateProven) != (before == StateProven) {
		l.peers.trust(now == StateProven, time.Now())
	}
	l.mu.Unlock()
	if now != before {
		if before == StateProven {
			l.sender.sendWithheld() // from now on the listener may not hear a starting instance
		}
		l.callbacks.OnState(now)
	}
}

// prove records a proof. It returns the previous state and the time since the previous proof.
func (l *Listener) prove() (before State, gap time.Duration) {
	before, gap = l.State()
	l.mu.Lock()
	l.lastProof = time.Now()
	l.mu.Unlock()
	l.change(func(State) State { return StateProven })
	return before, gap
}

// maxPeers is the maximum number of instances whose silence the listener notices. It receives messages of further instances, but
// does not notice their silence. A role that does not know belfry.channel_key cannot add peers, so its forged notifications do
// not fill the map.
const maxPeers = 1024

// peers are the other live instances. It is safe for concurrent use.
type peers struct {
	timeout time.Duration

	mu  sync.Mutex
	due map[queue.ID]time.Time // when each instance counts as silent
	// quietSince is when an instance was heard last, or when the listener was proven if that is later. Zero: the listener is not
	// proven, so it may not hear another instance.
	quietSince time.Time
}

func newPeers(timeout time.Duration) *peers {
	return &peers{timeout: timeout, due: make(map[queue.ID]time.Time)}
}

// heard records a message of an instance. Only a heartbeat adds an instance. Another message may be the last message of an
// instance that has stopped, which must not count as silent later.
func (p *peers) heard(id queue.ID, heartbeat bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(now)
	_, known := p.due[id]
	if known || heartbeat && len(p.due) < maxPeers {
		p.due[id] = now.Add(p.timeout)
	}
}

// noteLocked records that an instance was heard.
func (p *peers) noteLocked(now time.Time) {
	if !p.quietSince.IsZero() {
		p.quietSince = now
	}
}

// trust records that the listener is, or is not, proven from this instant on.
func (p *peers) trust(proven bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quietSince = time.Time{}
	if proven {
		p.quietSince = now
	}
}

// alone reports whether no other instance can be listening: the listener is proven, and has heard no other instance for the
// timeout. A goodbye restarts the timeout, because another instance may be starting.
func (p *peers) alone(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.due) == 0 && !p.quietSince.IsZero() && now.Sub(p.quietSince) >= p.timeout
}

// remove removes an instance that sent a goodbye.
func (p *peers) remove(id queue.ID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(now)
	delete(p.due, id)
}

// extendAll gives each instance a full timeout from now. Call it after a time without a connection.
func (p *peers) extendAll(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.due {
		p.due[id] = now.Add(p.timeout)
	}
}

// expire removes and returns the instances that have been silent for the timeout. next
// is when the next instance expires. It is zero if no instance is left.
func (p *peers) expire(now time.Time) (silent []queue.ID, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, due := range p.due {
		switch {
		case !due.After(now):
			silent = append(silent, id)
			delete(p.due, id)
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return silent, next
}

// knows reports whether the instance is a live peer.
func (p *peers) knows(id queue.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.due[id]
	return known
}

func (p *peers) ids() []queue.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Keys(p.due), func(a, b queue.ID) int { return bytes.Compare(a[:], b[:]) })
}

func (p *peers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.due)
}

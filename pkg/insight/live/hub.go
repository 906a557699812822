package live

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// tickInterval is the time that Rates cover, and the least time between two notifications.
	tickInterval = time.Second
	// gather is how long what happens first after a quiet second waits for more.
	gather = 50 * time.Millisecond
)

// Deps are what a Hub works with. The functions are called often and must not block.
type Deps struct {
	// Instance identifies this process to the others, Host to people.
	Instance queue.ID
	Host     string
	// Reader reads the database.
	Reader Reader
	// Send notifies the other instances. They call Heard.
	Send func(payload string)
	// Listener returns the state of the listener.
	Listener func() string
	// Waiting counts the waiting requests. WaitingByQueue leaves out those for no single queue.
	Waiting        func() int
	WaitingByQueue func() map[string]int
	// Peers returns the other instances.
	Peers func() []queue.ID
	// OwnUnwritten returns what this instance has counted and not written to the history, in at most so many bytes. Only
	// the readers of the other instances understand it. It returns nil if there is nothing.
	OwnUnwritten func(size int) []byte
	Log          *zap.Logger
}

// Hub knows what happens and who watches. It is safe for concurrent use. Subscribe it to the bus.
type Hub struct {
	events.Nop
	Deps
	cfg     Config
	epoch   string
	started time.Time
	// active: somebody watches, here or at another instance. Without it nothing is counted.
	active   atomic.Bool
	counts   counts
	exchange *exchange
	// wakeTick and wakeRead wake the two loops of Run.
	wakeTick, wakeRead events.Signal

	mu       sync.Mutex // guards the rest
	stopped  bool
	watchers map[*Watcher]struct{}
	// lingerUntil is until when events are collected without a watcher.
	lingerUntil time.Time
	number      uint64 // of the last event
	recent      []Event
	lastTick    time.Time
	// lastSaid is the last tick that had something to say, or when the hub began to collect.
	lastSaid time.Time
	out      outbox
	rates    ratesState
	peers    map[queue.ID]*peer
	// interests are the instances where somebody watches; see peers.go.
	interests     map[queue.ID]time.Time
	lastAnnounced time.Time
	heardPace     int // messages of other instances since the last tick
	leading       bool
	maintenance   *api.Switches
	reads         readState
	// known: the first read was made, or has failed, since somebody watches.
	known bool
}

// New returns a Hub. Run does its work.
func New(deps Deps, cfg Config) *Hub {
	id := queue.NewID()
	h := &Hub{
		Deps: deps, cfg: cfg, epoch: hex.EncodeToString(id[10:]), started: time.Now(),
		wakeTick: events.NewSignal(), wakeRead: events.NewSignal(),
		watchers: map[*Watcher]struct{}{}, peers: map[queue.ID]*peer{}, interests: map[queue.ID]time.Time{},
	}
	h.counts.onFirst = h.wakeTick.Set
	h.exchange = newExchange(h)
	return h
}

// Run counts, sends, reads and answers until ctx ends, and then returns nil.
func (h *Hub) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return h.runTicks(ctx) })
	running.Go(func() error { return h.runReads(ctx) })
	running.Go(func() error { return h.exchange.run(ctx) })
	return running.Wait()
}

// Stop sends each watcher a TypeClosing as its last event. It does not block.
func (h *Hub) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	h.stopped = true
	for w := range h.watchers {
		w.fresh = false
		w.deliver(Event{Type: TypeClosing, At: time.Now(), Instance: h.Instance, Data: api.Closing{Reason: "shutdown"}})
		w.closed = true
		w.ready.Set()
	}
	clear(h.watchers)
	h.wakeLocked()
}

// Watching returns how many watchers there are.
func (h *Hub) Watching() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers)
}

// watchedLocked reports whether events of all instances are collected here.
func (h *Hub) watchedLocked(now time.Time) bool {
	return !h.stopped && (len(h.watchers) > 0 || now.Before(h.lingerUntil))
}

// activateLocked begins to collect, for a watcher or for another instance.
func (h *Hub) activateLocked(now time.Time) {
	if h.watchedLocked(now) && h.lastAnnounced.IsZero() {
		h.lastAnnounced = now
		h.reads.thresholds = true
		h.send(message{Watch: true, Info: h.infoLocked(now)})
	}
	if !h.active.Load() {
		h.counts.take(now)
		h.rates = ratesState{}
		h.lastTick, h.lastSaid = now, now
		h.active.Store(true)
	}
	h.wakeLocked()
}

// settleLocked stops collecting when nobody watches.
func (h *Hub) settleLocked(now time.Time) {
	if !h.watchedLocked(now) && !h.lastAnnounced.IsZero() {
		h.lastAnnounced, h.lingerUntil, h.known = time.Time{}, time.Time{}, false
		h.recent, h.reads = nil, readState{}
		h.number++ // so that a watcher which comes back learns that it missed something
		clear(h.peers)
		if !h.stopped {
			h.send(message{Unwatch: true})
		}
	}
	if h.lastAnnounced.IsZero() && len(h.interests) == 0 {
		h.active.Store(false)
		h.out = outbox{}
	}
}

// publishLocked gives an event to the watchers.
func (h *Hub) publishLocked(e Event) {
	if h.lastAnnounced.IsZero() {
		return // nobody watches here
	}
	h.number++
	e.ID = h.idLocked()
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if len(h.recent) >= recentSize {
		h.recent = h.recent[1:] // append moves the rest once in a while
	}
	h.recent = append(h.recent, e)
	for w := range h.watchers {
		w.deliver(e)
	}
}

func (h *Hub) idLocked() string { return fmt.Sprintf("%s-%d", h.epoch, h.number) }

// happened publishes an event of this instance, here and at the other instances.
func (h *Hub) happened(e Event) {
	if !h.active.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e.Instance, e.At = h.Instance, time.Now()
	h.publishLocked(e)
	h.addLocked(e)
}

// addLocked adds an event to the next notification, if another instance watches.
func (h *Hub) addLocked(e Event) {
	if len(h.interests) > 0 {
		h.out.add(e)
		h.counts.note()
	}
}

func (h *Hub) instanceLocked(now time.Time) *api.Instance {
	return &api.Instance{
		ID: h.Instance.String(), Host: h.Host, Listener: h.Listener(), Sequencer: h.leading, Waiting: h.Waiting(),
		UptimeSeconds: int64(now.Sub(h.started) / time.Second),
	}
}

func (h *Hub) snapshotLocked() api.Snapshot {
	s := api.Snapshot{Instances: []api.Instance{*h.instanceLocked(time.Now())}, Queues: []api.QueueWaiting{}, Lag: []api.LateGroup{}, DeadLetters: []api.DeadLetterGroup{}, Maintenance: h.maintenance}
	for _, p := range h.peers {
		s.Instances = append(s.Instances, p.Instance)
	}
	slices.SortFunc(s.Instances[1:], func(a, b api.Instance) int { return strings.Compare(a.ID, b.ID) })
	for name, n := range h.WaitingByQueue() {
		s.Queues = append(s.Queues, api.QueueWaiting{Queue: name, Waiting: n})
	}
	slices.SortFunc(s.Queues, func(a, b api.QueueWaiting) int { return strings.Compare(a.Queue, b.Queue) })
	for _, one := range h.reads.beyond {
		if one.lag {
			s.Lag = append(s.Lag, one.lagEvent(true, h.cfg.LagThreshold))
		}
		if one.dead {
			s.DeadLetters = append(s.DeadLetters, api.DeadLetterGroup{Queue: one.Queue, Group: one.Group, Beyond: true, Threshold: h.cfg.DeadLettersThreshold})
		}
	}
	slices.SortFunc(s.Lag, func(a, b api.LateGroup) int { return strings.Compare(a.Queue+"\x00"+a.Group, b.Queue+"\x00"+b.Group) })
	slices.SortFunc(s.DeadLetters, func(a, b api.DeadLetterGroup) int {
		return strings.Compare(a.Queue+"\x00"+a.Group, b.Queue+"\x00"+b.Group)
	})
	return s
}

// wakeLocked makes both loops look at what is due.
func (h *Hub) wakeLocked() {
	h.wakeTick.Set()
	h.wakeRead.Set()
}

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
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// tickInterval is the time that Rates cover, and the minimum time between two notifications.
	tickInterval = time.Second
	// gather is how long the first event after a quiet second waits for further events, before the hub sends them.
	gather = 50 * time.Millisecond
)

// Deps are the dependencies of a Hub. The Hub calls the functions often, so they must not block.
type Deps struct {
	// Instance identifies this process to other instances. Host is the name for people.
	Instance queue.ID
	Host     string
	// Reader reads the database.
	Reader Reader
	// LateAfter is problems.late_after.
	LateAfter time.Duration
	// Counts counts the work of this instance.
	Counts *history.Recorder
	// Send notifies the other instances. Their Hubs get the payload through Heard.
	Send func(payload string)
	// Listener returns the state of the listener.
	Listener func() string
	// Waiting counts the waiting requests. WaitingByQueue leaves out requests that name no queue.
	Waiting        func() int
	WaitingByQueue func() map[string]int
	// Peers returns the other instances.
	Peers func() []queue.ID
	// OwnUnwritten returns the unwritten counts of this instance (history.Writer.Unwritten), in at most size bytes. It
	// returns nil if there are none.
	OwnUnwritten func(size int) []byte
	Log          *zap.Logger
}

// Hub collects events and sends them to the watchers. It is safe for concurrent use. The caller subscribes it to the
// event bus.
type Hub struct {
	events.Nop
	Deps
	cfg     Config
	epoch   string
	started time.Time
	// active is true if this instance or another instance has a watcher. Otherwise the hub counts nothing.
	active   atomic.Bool
	activity activity
	exchange *exchange
	// wakeTick and wakeRead wake the two loops of Run.
	wakeTick, wakeRead events.Signal

	mu       sync.Mutex // guards the fields below
	stopped  bool
	watchers map[*Watcher]struct{}
	// lingerUntil is the instant until which the hub collects events after its last watcher has left.
	lingerUntil time.Time
	number      uint64 // of the last event
	recent      []Event
	lastTick    time.Time
	// lastSaid is the last tick with rates or events, or the instant at which the hub started collecting.
	lastSaid time.Time
	out      outbox
	rates    ratesState
	peers    map[queue.ID]*peer
	// interests are the other instances with watchers. flushLocked describes the instants.
	interests     map[queue.ID]time.Time
	lastAnnounced time.Time
	heardPace     int // messages of other instances since the last tick
	leading       bool
	maintenance   *api.Switches
	reads         readState
	// known is true after the first read for the current watchers, also if that read failed.
	known bool
}

// New returns a Hub. The caller must call Run.
func New(deps Deps, cfg Config) *Hub {
	id := queue.NewID()
	h := &Hub{
		Deps: deps, cfg: cfg, epoch: hex.EncodeToString(id[10:]), started: time.Now(),
		wakeTick: events.NewSignal(), wakeRead: events.NewSignal(),
		watchers: map[*Watcher]struct{}{}, peers: map[queue.ID]*peer{}, interests: map[queue.ID]time.Time{},
	}
	h.activity.onFirst = h.wakeTick.Set
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

// Watching returns the number of watchers of this instance.
func (h *Hub) Watching() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers)
}

// watchedLocked reports whether this instance has a watcher, or had one in the last lingerTime.
func (h *Hub) watchedLocked(now time.Time) bool {
	return !h.stopped && (len(h.watchers) > 0 || now.Before(h.lingerUntil))
}

// activateLocked starts collecting events, for a watcher of this instance or for another instance.
func (h *Hub) activateLocked(now time.Time) {
	if h.watchedLocked(now) && h.lastAnnounced.IsZero() {
		h.lastAnnounced = now
		h.reads.thresholds = true
		h.send(message{Watch: true, Info: h.infoLocked(now)})
	}
	if !h.active.Load() {
		h.activity.take(now)
		h.Counts.Watch(h.activity.note)
		h.rates = ratesState{}
		h.lastTick, h.lastSaid = now, now
		h.active.Store(true)
	}
	h.wakeLocked()
}

// settleLocked stops collecting events when no instance has a watcher.
func (h *Hub) settleLocked(now time.Time) {
	if !h.watchedLocked(now) && !h.lastAnnounced.IsZero() {
		h.lastAnnounced, h.lingerUntil, h.known = time.Time{}, time.Time{}, false
		h.recent, h.reads = nil, readState{}
		h.number++ // so that Watch sees a gap when a watcher subscribes again
		clear(h.peers)
		if !h.stopped {
			h.send(message{Unwatch: true})
		}
	}
	if h.lastAnnounced.IsZero() && len(h.interests) == 0 {
		h.active.Store(false)
		h.Counts.Unwatch()
		h.out = outbox{}
	}
}

// publishLocked delivers an event to the watchers of this instance.
func (h *Hub) publishLocked(e Event) {
	if h.lastAnnounced.IsZero() {
		return // this instance has no watcher
	}
	h.number++
	e.ID = h.idLocked()
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if len(h.recent) >= recentSize {
		h.recent = h.recent[1:] // append reallocates now and then, which frees the dropped events
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

// addLocked adds an event to the next notification, if another instance has watchers.
func (h *Hub) addLocked(e Event) {
	if len(h.interests) > 0 {
		h.out.add(e)
		h.activity.note()
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
	for _, group := range h.reads.beyond {
		if group.lag {
			s.Lag = append(s.Lag, group.lagEvent(true))
		}
		if group.dead {
			s.DeadLetters = append(s.DeadLetters, api.DeadLetterGroup{Queue: group.Queue, Group: group.Group, Beyond: true, Threshold: h.cfg.DeadLettersThreshold})
		}
	}
	slices.SortFunc(s.Lag, func(a, b api.LateGroup) int { return strings.Compare(a.Queue+"\x00"+a.Group, b.Queue+"\x00"+b.Group) })
	slices.SortFunc(s.DeadLetters, func(a, b api.DeadLetterGroup) int {
		return strings.Compare(a.Queue+"\x00"+a.Group, b.Queue+"\x00"+b.Group)
	})
	return s
}

// wakeLocked makes both loops of Run check whether a tick or a read is due.
func (h *Hub) wakeLocked() {
	h.wakeTick.Set()
	h.wakeRead.Set()
}

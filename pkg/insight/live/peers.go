package live

import (
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxPayload is the maximum size in bytes of a message to other instances, before its encryption.
	maxPayload = listen.MaxLive
	// maxOutEvents is how many events one notification has at most. Further events are counted as lost.
	maxOutEvents = 40
	// patience is how long an instance sends figures to another instance that does not renew its interest.
	// An instance renews its interest at most once in renewInterval.
	patience, renewInterval = 15 * time.Second, 5 * time.Second
	// maxPeers is how many other instances a hub remembers. maxHeard is how many of their messages it handles
	// in one second.
	maxPeers, maxHeard = 64, 200
	// payloadVersion is the first member of a payload. A hub ignores payloads of other versions.
	payloadVersion = 1
)

// peer has the last received description of another instance.
type peer struct{ api.Instance }

// outbox is the content of the next notification.
type outbox struct {
	rates  *api.Rates
	events []Event
	lost   int
	audit  bool
	// renew is true if an instance has sent figures since the last renewal.
	renew bool
}

// add adds an event.
func (o *outbox) add(e Event) {
	if len(o.events) >= maxOutEvents {
		o.lost++
		return
	}
	o.events = append(o.events, e)
}

// message is the payload of a notification.
type message struct {
	Version int    `json:"v"`
	From    string `json:"i"`
	// Hello means that the sender does not know which instances have watchers. Watch means that the sender has a
	// watcher. Unwatch means that it has none any more.
	Hello   bool `json:"hello,omitempty"`
	Watch   bool `json:"watch,omitempty"`
	Unwatch bool `json:"unwatch,omitempty"`
	// Ask means that the sender wants the unwritten counts of the other instances. Answer means that Unwritten has the
	// unwritten counts of the sender.
	Ask       bool   `json:"ask,omitempty"`
	Answer    bool   `json:"answer,omitempty"`
	Unwritten []byte `json:"u,omitempty"`
	// Info describes the sender.
	Info *sentInfo `json:"info,omitempty"`
	// Audit means that the sender has written rows of the audit.
	Audit  bool        `json:"audit,omitempty"`
	Lost   int         `json:"lost,omitempty"`
	Events []sentEvent `json:"e,omitempty"`
	Rates  *sentRates  `json:"r,omitempty"`
}

// sentInfo is an Instance without its id.
type sentInfo struct {
	Host      string `json:"h"`
	Listener  string `json:"l"`
	Sequencer bool   `json:"s,omitempty"`
	Waiting   int    `json:"w"`
	Uptime    int64  `json:"u"`
}

// sentRates are Rates without their Instance.
type sentRates struct {
	Seconds float64     `json:"s"`
	Queues  []sentQueue `json:"q"`
	Omitted int         `json:"o,omitempty"`
}

// sentQueue encodes QueueRates as an array, because an object needs twice as many bytes.
type sentQueue struct{ api.QueueRates }

// MarshalJSON writes the array.
func (q sentQueue) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{q.Queue, q.Pushed, q.Delivered, q.Acked, q.Failed, q.Waiting, q.Retried, q.DeadLettered})
}

// UnmarshalJSON reads the array.
func (q *sentQueue) UnmarshalJSON(text []byte) error {
	into := []any{&q.Queue, &q.Pushed, &q.Delivered, &q.Acked, &q.Failed, &q.Waiting, &q.Retried, &q.DeadLettered}
	return json.Unmarshal(text, &into)
}

// sentEvent is an event in a message. At most one of the pointers is set.
type sentEvent struct {
	Type      Type                 `json:"t"`
	At        time.Time            `json:"at"`
	Queue     string               `json:"q,omitempty"`
	Partition string               `json:"p,omitempty"`
	Group     string               `json:"g,omitempty"`
	Listener  *api.ListenerChange  `json:"l,omitempty"`
	Sweep     *api.SweepCounts     `json:"s,omitempty"`
	Sequencer *api.SequencerChange `json:"n,omitempty"`
}

func sent(e Event) sentEvent {
	s := sentEvent{Type: e.Type, At: e.At, Queue: e.Queue, Partition: e.Partition, Group: e.Group}
	switch data := e.Data.(type) {
	case api.ListenerChange:
		s.Listener = &data
	case api.SweepCounts:
		s.Sweep = &data
	case api.SequencerChange:
		s.Sequencer = &data
	}
	return s
}

// event returns the event of an instance. ok is false for a type that instances do not send, or if its data is missing.
func (s *sentEvent) event(from queue.ID) (e Event, ok bool) {
	e = Event{Type: s.Type, At: s.At, Instance: from, Queue: s.Queue, Partition: s.Partition, Group: s.Group}
	switch s.Type {
	case TypeQueueCreated, TypeGroupCreated:
		return e, s.Queue != ""
	case TypeListener:
		if s.Listener != nil {
			e.Data = *s.Listener
		}
	case TypeSweep:
		if s.Sweep != nil {
			e.Data = *s.Sweep
		}
	case TypeSequencer:
		if s.Sequencer != nil {
			e.Data = *s.Sequencer
		}
	default: // instances do not send other types
	}
	return e, e.Data != nil
}

// encode returns a message as a payload of at most maxPayload bytes. If necessary, it leaves out first the least busy
// queues, and then the latest events.
func (m *message) encode() (string, error) {
	for {
		text, err := json.Marshal(m)
		if err != nil {
			return "", fmt.Errorf("encoding a notification of events: %w", err)
		}
		switch over := len(text) - maxPayload; {
		case over <= 0:
			return string(text), nil
		case m.Rates != nil && len(m.Rates.Queues) > 0:
			r := m.Rates
			drop := max(1, len(r.Queues)*over/len(text))
			r.Queues = r.Queues[:len(r.Queues)-drop]
			r.Omitted += drop
		case len(m.Events) > 0:
			drop := max(1, len(m.Events)*over/len(text))
			m.Events = m.Events[:len(m.Events)-drop]
			m.Lost += drop
		default:
			return "", fmt.Errorf("encoding a notification of events: it has %d bytes, and the limit is %d", len(text), maxPayload)
		}
	}
}

func (h *Hub) infoLocked(now time.Time) *sentInfo {
	i := h.instanceLocked(now)
	return &sentInfo{Host: i.Host, Listener: i.Listener, Sequencer: i.Sequencer, Waiting: i.Waiting, Uptime: i.UptimeSeconds}
}

// send sends a message of this instance.
func (h *Hub) send(m message) {
	m.Version, m.From = payloadVersion, h.Instance.String()
	payload, err := m.encode()
	if err != nil {
		h.Log.Warn("the other instances were not notified of events", zap.Error(err))
		return
	}
	h.Send(payload)
}

// flushLocked sends a notification if necessary. It sends figures if another instance has watchers. It sends a renewal
// if another instance has sent figures. An idle instance sends nothing.
//
// An interest has the instant of the first figures since its last renewal, or zero. It ends with Unwatch, or when
// patience has passed since that instant. So an interest of an idle system needs no renewal, and an instance that
// died gets figures for at most patience.
func (h *Hub) flushLocked(now time.Time) {
	for id, since := range h.interests {
		if !since.IsZero() && now.Sub(since) > patience {
			delete(h.interests, id)
		}
	}
	var m message
	if h.watchedLocked(now) && h.out.renew && now.Sub(h.lastAnnounced) >= renewInterval {
		m.Watch, h.out.renew, h.lastAnnounced = true, false, now
	}
	figures := len(h.interests) > 0 && (h.out.rates != nil || len(h.out.events) > 0 || h.out.audit)
	if figures {
		m.Lost, m.Audit = h.out.lost, h.out.audit
		if r := h.out.rates; r != nil {
			m.Rates = &sentRates{Seconds: r.Seconds, Queues: make([]sentQueue, len(r.Queues)), Omitted: r.Omitted}
			for i := range r.Queues {
				m.Rates.Queues[i] = sentQueue{r.Queues[i]}
			}
		}
		for _, e := range h.out.events {
			m.Events = append(m.Events, sent(e))
		}
		for id, since := range h.interests {
			if since.IsZero() {
				h.interests[id] = now
			}
		}
	}
	h.out = outbox{renew: h.out.renew}
	if figures || m.Watch {
		m.Info = h.infoLocked(now)
		h.send(m)
	}
}

// OnListening sends Hello. While the listener was disconnected, this instance and the others may have missed each
// other's announcements.
func (h *Hub) OnListening() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	watched := !h.lastAnnounced.IsZero()
	if watched {
		h.lastAnnounced = now
	}
	if !h.stopped {
		h.send(message{Hello: true, Watch: watched, Info: h.infoLocked(now)})
	}
}

// Heard handles a notification of another instance. That instance may run another version. Heard does not block.
func (h *Hub) Heard(payload string) {
	var m message
	if len(payload) > maxPayload || json.Unmarshal([]byte(payload), &m) != nil || m.Version != payloadVersion {
		return
	}
	from, err := queue.ParseID(m.From)
	if err != nil || from == h.Instance {
		return
	}
	h.exchange.heard(from, &m)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.heardPace++; h.heardPace > maxHeard && h.active.Load() {
		return
	}
	now := time.Now()
	h.heardInterestLocked(from, &m, now)
	if h.watchedLocked(now) {
		if m.Hello {
			h.out.renew, h.lastAnnounced = true, now.Add(-renewInterval)
		}
		h.heardFiguresLocked(from, &m)
	}
}

// heardInterestLocked records whether another instance has watchers. It answers a new interest with a description of
// this instance.
func (h *Hub) heardInterestLocked(from queue.ID, m *message, now time.Time) {
	if m.Unwatch {
		delete(h.interests, from)
	}
	if !m.Watch || h.stopped {
		return
	}
	_, known := h.interests[from]
	if !known && len(h.interests) >= maxPeers {
		return
	}
	h.interests[from] = time.Time{}
	if !known {
		h.activateLocked(now)
		h.send(message{Info: h.infoLocked(now)})
	}
}

// heardFiguresLocked publishes the events and rates of another instance.
func (h *Hub) heardFiguresLocked(from queue.ID, m *message) {
	if m.Info != nil {
		h.heardInfoLocked(from, m.Info)
	}
	for _, s := range m.Events {
		if e, ok := s.event(from); ok {
			h.publishLocked(e)
		}
	}
	if m.Lost > 0 {
		h.publishLocked(Event{Type: TypeDropped, Instance: from, Data: api.Dropped{Count: m.Lost}})
	}
	if m.Rates != nil {
		r := api.Rates{Seconds: m.Rates.Seconds, Queues: make([]api.QueueRates, len(m.Rates.Queues)), Omitted: m.Rates.Omitted}
		for i := range r.Queues {
			r.Queues[i] = m.Rates.Queues[i].QueueRates
		}
		if p := h.peers[from]; p != nil {
			instance := p.Instance
			r.Instance = &instance
		}
		h.publishLocked(Event{Type: TypeRates, Instance: from, Data: r})
	}
	h.reads.audit = h.reads.audit || m.Audit
	if m.Rates != nil || m.Audit || len(m.Events) > 0 {
		h.out.renew = true
		h.movedLocked()
		h.wakeLocked()
	}
}

func (h *Hub) heardInfoLocked(from queue.ID, info *sentInfo) {
	p := h.peers[from]
	if p == nil && len(h.peers) >= maxPeers {
		return
	}
	if p == nil {
		h.publishLocked(Event{Type: TypeInstance, Instance: from, Data: api.InstanceChange{State: "joined", Host: info.Host}})
	}
	h.peers[from] = &peer{api.Instance{
		ID: from.String(), Host: info.Host, Listener: info.Listener, Sequencer: info.Sequencer, Waiting: info.Waiting, UptimeSeconds: info.Uptime,
	}}
}

// PeerLeft handles that another instance has stopped or sends no heartbeats any more.
func (h *Hub) PeerLeft(id queue.ID) {
	h.exchange.left(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.interests, id)
	if p := h.peers[id]; p != nil {
		delete(h.peers, id)
		h.publishLocked(Event{Type: TypeInstance, Instance: id, Data: api.InstanceChange{State: "left", Host: p.Host}})
	}
}

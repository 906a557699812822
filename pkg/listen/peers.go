package listen

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxPeers is the most instances whose silence is noticed. Messages of further instances
// are received, but their silence is not noticed.
const maxPeers = 1024

// Peer is another instance.
type Peer struct {
	Instance queue.ID
	// Heard is when its latest message arrived, by the local clock.
	Heard time.Time
}

// peers are the other live instances. It is safe for concurrent use.
type peers struct {
	timeout time.Duration

	mu    sync.Mutex
	known map[queue.ID]peer
}

type peer struct {
	heard time.Time
	due   time.Time // when it counts as silent
}

func newPeers(timeout time.Duration) *peers {
	return &peers{timeout: timeout, known: make(map[queue.ID]peer)}
}

// heard records a message of an instance. Only a heartbeat adds a new instance, because
// only instances with heartbeats are expected to send again.
func (p *peers) heard(id queue.ID, heartbeat bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.known[id]
	if known || heartbeat && len(p.known) < maxPeers {
		p.known[id] = peer{heard: now, due: now.Add(p.timeout)}
	}
}

// remove removes an instance that sent a goodbye.
func (p *peers) remove(id queue.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, id)
}

// extendAll gives each instance a full timeout from now. Call it after a time without a
// connection.
func (p *peers) extendAll(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, known := range p.known {
		known.due = now.Add(p.timeout)
		p.known[id] = known
	}
}

// expire removes and returns the instances that have been silent for the timeout. next
// is when the next instance expires. It is zero if no instance is left.
func (p *peers) expire(now time.Time) (silent []queue.ID, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, known := range p.known {
		switch {
		case !known.due.After(now):
			silent = append(silent, id)
			delete(p.known, id)
		case next.IsZero() || known.due.Before(next):
			next = known.due
		}
	}
	return silent, next
}

// list returns the live instances, sorted by id.
func (p *peers) list() []Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Peer, 0, len(p.known))
	for id, known := range p.known {
		list = append(list, Peer{Instance: id, Heard: known.heard})
	}
	slices.SortFunc(list, func(a, b Peer) int { return bytes.Compare(a.Instance[:], b.Instance[:]) })
	return list
}

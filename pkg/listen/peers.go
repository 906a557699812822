package listen

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxPeers bounds how many other instances are watched; one more is heard but not
// missed when it falls silent.
const maxPeers = 1024

// Peer is another instance.
type Peer struct {
	Instance queue.ID
	// Heard is when it said something last, by our clock.
	Heard time.Time
}

// peers remembers the other instances that are alive. It is safe for concurrent
// use.
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

// heard notes that an instance said something. Only a heartbeat makes it known:
// what says other things has not promised to say more.
func (p *peers) heard(id queue.ID, heartbeat bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.known[id]
	if known || heartbeat && len(p.known) < maxPeers {
		p.known[id] = peer{heard: now, due: now.Add(p.timeout)}
	}
}

// remove forgets an instance that said goodbye.
func (p *peers) remove(id queue.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, id)
}

// grace gives everybody a full timeout from now, after a time in which we could
// not hear them.
func (p *peers) grace(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, known := range p.known {
		known.due = now.Add(p.timeout)
		p.known[id] = known
	}
}

// expire forgets and returns those that are silent for too long, and when the next
// of the others would be; zero when there are none.
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

// list returns the living, sorted by id.
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

package listen

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxPeers is the most instances whose silence is noticed. Messages of further instances
// are received, but their silence is not noticed. Only an instance can be a peer: it knows belfry.channel_key.
const maxPeers = 1024

// peers are the other live instances. It is safe for concurrent use.
type peers struct {
	timeout time.Duration

	mu  sync.Mutex
	due map[queue.ID]time.Time // when each instance counts as silent
	// quietSince is when an instance was heard last, or when the listener was proven if that is later. Zero:
	// the listener is not proven, so an instance may be there unheard.
	quietSince time.Time
}

func newPeers(timeout time.Duration) *peers {
	return &peers{timeout: timeout, due: make(map[queue.ID]time.Time)}
}

// heard records a message of an instance. Only a heartbeat adds a new instance, because
// only instances with heartbeats are expected to send again.
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

// trust records whether the listener is proven from this instant on.
func (p *peers) trust(proven bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quietSince = time.Time{}
	if proven {
		p.quietSince = now
	}
}

// alone reports whether no other instance can be listening: the listener is proven, and heard none for the
// timeout. After a goodbye another instance may just be starting.
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

// knows reports whether an instance is known to live.
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

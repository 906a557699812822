package inflight

import (
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/heap"
)

const (
	// bodyRate is a rate in bytes per second. A body that arrives more slowly than bodyRate can lose its memory to other bodies.
	bodyRate = 512 << 10
	// bodyGrace is how long a body may be behind bodyRate before it is slow.
	bodyGrace = time.Second
	// reservedPart: a caller with several bodies leaves 1/reservedPart of the memory of bodies to other callers.
	reservedPart = 8
)

// bodies divides the memory of bodies among callers.
//
// A body may take memory while some is left. A caller with several bodies leaves an eighth of the memory to other callers, even
// if there are no other callers. If no memory is left, one body that still arrives loses its memory:
//
//  1. A slow body of any caller, if there is a slow body. A body is slow when it has been behind bodyRate for longer than
//     bodyGrace. A body whose first bytes arrived fast also becomes slow after bodyGrace.
//  2. Otherwise a body of the caller with the most memory. This caller must have more than its share, and the caller that needs
//     memory must stay within its own share. With n callers, a share is 1/n of the memory.
//
// If no body can lose its memory, the body that needs memory is refused. A body that has arrived keeps its memory until its
// request ends.
type bodies struct {
	mu  sync.Mutex
	all pool
	// callers has the pools of all callers that have memory. most has the pools with arriving bodies, and the pool with the most
	// memory is first.
	callers map[string]*pool
	most    heap.Heap[*pool]
}

// Each body counts in two pools: the pool of all bodies and the pool of its caller.
const (
	ofAll = iota
	ofCaller
	pools
)

// pool is a limited part of the memory of bodies. bodies.mu guards it.
type pool struct {
	limit, used int64
	// arriving are the bodies that can lose their memory.
	arriving arriving
	// rank is the position in bodies.most.
	rank int
}

func newBodies(limit int64) bodies {
	return bodies{all: pool{limit: limit}, callers: map[string]*pool{}}
}

// Body is the memory of a body that arrives. One goroutine reads the body and calls the methods.
type Body struct {
	bodies *bodies
	caller string
	lose   func()

	// bodies.mu guards the fields below. memory counts in both pools.
	memory int64
	pools  [pools]*pool
	// place has the position of the body in pool.arriving of each pool.
	place [pools]int
	// slow is when the body becomes slow if no more bytes arrive.
	slow  time.Time
	state bodyState
}

type bodyState int

const (
	isArriving bodyState = iota
	hasArrived
	hasLost
	hasEnded
)

// Body begins the body of a caller. If the body loses its memory to another body, lose is called once, on another goroutine. lose
// must end a Read that waits for bytes, and must not block. The lost memory no longer counts, so the caller must free the bytes
// at once.
func (r *Reservation) Body(caller string, lose func()) *Body {
	b := &Body{bodies: &r.budget.bodies, caller: caller, lose: lose, slow: time.Now().Add(bodyGrace)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		b.state = hasEnded
	}
	r.body = append(r.body, b)
	return b
}

// Take reserves memory for n bytes that have arrived. It returns false if too little memory is left, or if the body has lost its
// memory. Afterwards the body has no memory, and every further Take returns false.
func (b *Body) Take(n int) bool {
	all := b.bodies
	all.mu.Lock()
	defer all.mu.Unlock()
	if b.state != isArriving {
		return false
	}
	if n == 0 {
		return true
	}
	now := time.Now()
	b.slow = b.slow.Add(time.Duration(n) * time.Second / bodyRate)
	if latest := now.Add(bodyGrace); b.slow.After(latest) {
		b.slow = latest
	}
	own := all.callers[b.caller]
	if own == nil {
		own = &pool{limit: all.all.limit - all.all.limit/reservedPart}
	}
	b.pools = [pools]*pool{&all.all, own}
	memory := int64(n) * BodyCopies
	for level, p := range b.pools {
		for p.used+memory > p.limit && (level == ofAll || p.used > b.memory) {
			loser := p.arriving.slow(now)
			if loser == nil && level == ofAll {
				loser = all.aboveShare(own, memory)
			}
			if loser == nil || loser == b {
				b.leave()
				b.state = hasEnded
				return false
			}
			loser.leave()
			loser.state = hasLost
			loser.lose()
		}
	}
	all.callers[b.caller] = own // leave has deleted the pool if the loop removed the last other body of the caller
	b.memory += memory
	for level, p := range b.pools {
		p.used += memory
		p.arriving.Put(arrival{b, level})
	}
	all.rank(own)
	return true
}

// aboveShare returns the body that loses its memory so that the caller with the pool own can take more memory. It returns nil if
// that caller would exceed its share, or if no caller has more than its share.
func (all *bodies) aboveShare(own *pool, memory int64) *Body {
	callers := len(all.callers)
	if own.used == 0 {
		callers++
	}
	share := all.all.limit / int64(max(1, callers))
	if own.used+memory > share || len(all.most) == 0 || all.most[0].used <= share {
		return nil
	}
	return all.most[0].arriving.Heap[0].Body
}

// rank updates the position of the pool of a caller in most. A pool without arriving bodies is not in most.
func (all *bodies) rank(p *pool) {
	if len(p.arriving.Heap) > 0 {
		all.most.Put(p)
	} else {
		all.most.Remove(p)
	}
}

// Arrived marks the body as complete, so that it keeps its memory until the reservation ends. It returns false if the body has
// lost its memory.
func (b *Body) Arrived() bool {
	b.bodies.mu.Lock()
	defer b.bodies.mu.Unlock()
	if b.state == isArriving {
		b.keep()
		b.state = hasArrived
	}
	return b.state == hasArrived
}

// Lost reports whether the body has lost its memory.
func (b *Body) Lost() bool {
	b.bodies.mu.Lock()
	defer b.bodies.mu.Unlock()
	return b.state == hasLost
}

// keep removes the body from the bodies that can lose their memory.
func (b *Body) keep() {
	for level, p := range b.pools {
		if p != nil {
			p.arriving.Remove(arrival{b, level})
		}
	}
	if own := b.pools[ofCaller]; own != nil {
		b.bodies.rank(own)
	}
}

// leave releases the memory of the body.
func (b *Body) leave() {
	for _, p := range b.pools {
		if p != nil {
			p.used -= b.memory
		}
	}
	b.memory = 0
	b.keep()
	if own := b.pools[ofCaller]; own != nil && own.used == 0 && b.bodies.callers[b.caller] == own {
		delete(b.bodies.callers, b.caller)
	}
}

func (b *Body) end() {
	b.bodies.mu.Lock()
	defer b.bodies.mu.Unlock()
	b.leave()
	b.state = hasEnded
}

// arriving orders bodies by the time when they become slow. The earliest is first.
type arriving struct {
	heap.Heap[arrival]
}

// arrival is a body in one of its pools.
type arrival struct {
	*Body
	level int
}

// Before implements heap.Element.
func (a arrival) Before(other arrival) bool { return a.slow.Before(other.slow) }

// Place implements heap.Element.
func (a arrival) Place() *int { return &a.place[a.level] }

// slow returns the first body, or nil if that body is not slow.
func (a *arriving) slow(now time.Time) *Body {
	if len(a.Heap) == 0 || a.Heap[0].slow.After(now) {
		return nil
	}
	return a.Heap[0].Body
}

// Before implements heap.Element: the pool with the most memory is first.
func (p *pool) Before(other *pool) bool { return p.used > other.used }

// Place implements heap.Element.
func (p *pool) Place() *int { return &p.rank }

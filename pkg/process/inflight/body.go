package inflight

import (
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/heap"
)

const (
	// bodyRate is the slowest rate of a body that keeps its place when others need the memory, in bytes per second.
	bodyRate = 512 << 10
	// bodyGrace is how long a body may be behind that rate.
	bodyGrace = time.Second
	// reservedPart is the part of the memory of bodies that one caller with several bodies cannot take.
	reservedPart = 8
)

// bodies divides the memory of bodies among callers.
//
// A body may take memory while some is left. A caller with several bodies leaves an eighth of the memory to other
// callers, even if there are none. If no memory is left, a body that still arrives loses its place:
//
//  1. A slow one, of any caller: it has been behind bodyRate for longer than bodyGrace. What it sent faster before
//     does not count.
//  2. With n callers, a share is 1/n of the memory. If the body stays within the share of its caller, it is
//     one of the caller that has the most and more than its share.
//
// Every other body is refused. A body that has arrived keeps its memory until its request ends.
type bodies struct {
	mu  sync.Mutex
	all pool
	// callers have memory.
	callers map[string]*pool
	most    heap.Heap[*pool]
}

// The pools that count a body: of all bodies, and of its caller.
const (
	ofAll = iota
	ofCaller
	pools
)

// pool is a bounded part of the memory of bodies. bodies.mu guards it.
type pool struct {
	limit, used int64
	// arriving are the bodies that can lose their place.
	arriving arriving
	// rank is the place in bodies.most.
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

	// bodies.mu guards these. memory is in both pools.
	memory int64
	pools  [pools]*pool
	// place is the place in pool.arriving.
	place [pools]int
	// slow is when the body is slow, unless more bytes arrive before.
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

// Body begins the body of a caller. lose is called once if the body loses its place to another one, from another
// goroutine. It must end a Read that waits for bytes, and it must not block. The memory of a body that has lost its
// place is counted no more: the caller lets go of its bytes at once.
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

// Take reserves the memory for n bytes that have arrived. It returns false if it is not left, or if the body has lost
// its place. The body then has no memory, and takes nothing more.
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
	all.callers[b.caller] = own // its last body may just have left
	b.memory += memory
	for level, p := range b.pools {
		p.used += memory
		p.arriving.Put(arrival{b, level})
	}
	all.rank(own)
	return true
}

// aboveShare returns the body that loses its place so that the caller with the pool own can take more memory. It
// returns nil if that caller would exceed its share, or if no caller has more than its share.
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

// rank moves a pool of a caller to its place in most.
func (all *bodies) rank(p *pool) {
	if len(p.arriving.Heap) > 0 {
		all.most.Put(p)
	} else {
		all.most.Remove(p)
	}
}

// Arrived keeps the memory until the end of the reservation: the body cannot lose its place any more. It returns false
// if the body has lost it.
func (b *Body) Arrived() bool {
	b.bodies.mu.Lock()
	defer b.bodies.mu.Unlock()
	if b.state == isArriving {
		b.keep()
		b.state = hasArrived
	}
	return b.state == hasArrived
}

// Lost reports whether the body has lost its place.
func (b *Body) Lost() bool {
	b.bodies.mu.Lock()
	defer b.bodies.mu.Unlock()
	return b.state == hasLost
}

// keep says that the body cannot lose its place any more.
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

// leave returns the memory.
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

// arriving has bodies. The one that is slow first is first.
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

// slow returns the first body if it is slow now.
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

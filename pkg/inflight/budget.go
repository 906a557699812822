// Package inflight bounds the memory of the requests and answers that a server has in hand.
//
// A body takes from the budget as its bytes arrive, and an answer as its messages arrive from the
// database. What finds no room is refused: it holds nothing while it waits, so requests cannot block
// each other. A refused body is discarded, and the messages of a refused answer are given back. A body that
// is slow, or of a caller with more than its share, loses its place to those that arrive: see bodies.
// Claims are told how much is left, so that few are refused. Bodies and answers have half of the
// budget each, so that clients that do not read cannot stop pushes.
package inflight

import (
	"sync"
	"sync/atomic"
)

// The memory of a process for one byte of a body and of an answer, with garbage that is not collected
// yet. Run test/bench/edge inflight to measure the first, and bigpop to measure the second.
const (
	BodyCopies   = 4
	AnswerCopies = 3
)

// answersAtOnce is how many answers of AnswerBytes fit into the memory that is left.
const answersAtOnce = 2

// Budget bounds bytes. Its methods may be called by any goroutine, and none blocks.
type Budget struct {
	half    int64
	bodies  bodies
	answers atomic.Int64
}

// NewBudget returns a budget of some bytes of memory.
func NewBudget(bytes int64) *Budget { return &Budget{half: bytes / 2, bodies: newBodies(bytes / 2)} }

// Used returns the reserved memory in bytes.
func (b *Budget) Used() int64 {
	b.bodies.mu.Lock()
	defer b.bodies.mu.Unlock()
	return b.bodies.all.used + b.answers.Load()
}

// Reservation returns a reservation without memory.
func (b *Budget) Reservation() *Reservation { return &Reservation{budget: b} }

// Reservation is the memory of one request and its answer. Its methods may be called by any
// goroutine, and none blocks.
type Reservation struct {
	budget *Budget

	mu     sync.Mutex
	body   []*Body // one for each time that the request reads its body
	answer int64
	ended  bool
}

// TakeAnswer reserves the memory for n bytes of the answer, and returns false if it is not left. An
// answer of any size has room if there is no other answer.
func (r *Reservation) TakeAnswer(n int) bool {
	memory := int64(n) * AnswerCopies
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	if all := r.budget.answers.Add(memory); all > r.budget.half && all > r.answer+memory {
		r.budget.answers.Add(-memory)
		return false
	}
	r.answer += memory
	return true
}

// ReturnAnswer returns the memory for n bytes that TakeAnswer reserved.
func (r *Reservation) ReturnAnswer(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if memory := int64(n) * AnswerCopies; !r.ended {
		r.answer -= memory
		r.budget.answers.Add(-memory)
	}
}

// AnswerBytesLeft returns the largest answer that should be made now. It is 0 if nothing is left.
func (r *Reservation) AnswerBytesLeft() int64 {
	return max(0, r.budget.half-r.budget.answers.Load()) / (AnswerCopies * answersAtOnce)
}

// End returns all memory. Nothing can be reserved afterwards.
func (r *Reservation) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.body {
		b.end()
	}
	r.budget.answers.Add(-r.answer)
	r.body, r.answer, r.ended = nil, 0, true
}

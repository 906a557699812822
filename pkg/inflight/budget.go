// Package inflight bounds the memory of the requests and answers that a server has in hand.
//
// A body takes from the budget as its bytes arrive, and an answer as its messages arrive from the
// database. What finds no room is refused: it holds nothing while it waits, so requests cannot block
// each other. A refused body is discarded, and the messages of a refused answer are given back.
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
	half            int64
	bodies, answers atomic.Int64
}

// NewBudget returns a budget of some bytes of memory.
func NewBudget(bytes int64) *Budget { return &Budget{half: bytes / 2} }

// Used returns the reserved memory in bytes.
func (b *Budget) Used() int64 { return b.bodies.Load() + b.answers.Load() }

// Reservation returns a reservation without memory.
func (b *Budget) Reservation() *Reservation { return &Reservation{budget: b} }

// Reservation is the memory of one request and its answer. Its methods may be called by any
// goroutine, and none blocks.
type Reservation struct {
	budget *Budget

	mu           sync.Mutex
	body, answer int64
	ended        bool
}

// TakeBody reserves the memory for n bytes of the body, and returns false if it is not left.
func (r *Reservation) TakeBody(n int) bool {
	return r.take(&r.budget.bodies, &r.body, int64(n)*BodyCopies)
}

// TakeAnswer reserves the memory for n bytes of the answer, and returns false if it is not left. An
// answer of any size has room if there is no other answer.
func (r *Reservation) TakeAnswer(n int) bool {
	return r.take(&r.budget.answers, &r.answer, int64(n)*AnswerCopies)
}

func (r *Reservation) take(used *atomic.Int64, own *int64, memory int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	if all := used.Add(memory); all > r.budget.half && (own == &r.body || all > *own+memory) {
		used.Add(-memory)
		return false
	}
	*own += memory
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
	r.budget.bodies.Add(-r.body)
	r.budget.answers.Add(-r.answer)
	r.body, r.answer, r.ended = 0, 0, true
}

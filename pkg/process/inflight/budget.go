// Package inflight bounds the memory of the requests and answers that a server has in hand.
//
// A body takes from the budget as its bytes arrive, and an answer as its messages or rows arrive from
// the database. A body or an answer for which no memory is left is refused at once, so no request waits
// for the memory of another one. A refused body is discarded, and the messages of a refused answer are given back. A body that
// is slow, or of a caller with more than its share, loses its place to other bodies: see bodies.
// Claims and pages of lists are told how much is left, so that few are refused. Bodies and answers have
// half of the budget each, so that clients that do not read cannot stop pushes.
//
// The context of a request carries its reservation to the packages that read for it: see With and From.
package inflight

import (
	"context"
	"sync"
	"sync/atomic"
)

// The memory of a process for one byte of a body and of an answer, with garbage that is not collected
// yet. Run test/bench/edge inflight to measure the first, and bigpop to measure the second.
const (
	BodyCopies   = 4
	AnswerCopies = 3
)

// answersAtOnce is how many answers of AnswerBytesLeft fit into the memory that is left.
const answersAtOnce = 2

const (
	// FreeAnswer is how many bytes an answer may have without a reservation, so that small answers are given
	// when the budget is used up. Nothing larger is written at once without one.
	FreeAnswer = 64 << 10
	// pageStart is how many bytes a page of a list reserves before it is read.
	pageStart = 1 << 20
)

// Budget bounds bytes. Its methods may be called by any goroutine, and none blocks.
type Budget struct {
	half, page int64
	bodies     bodies
	answers    atomic.Int64
}

// NewBudget returns a budget of some bytes of memory. A page of a list has at most page bytes, or one row.
func NewBudget(bytes, page int64) *Budget {
	return &Budget{half: bytes / 2, page: page, bodies: newBodies(bytes / 2)}
}

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
	// read is how many bytes of rows the answer has.
	read  int64
	ended bool
}

// Another returns one more reservation of the same budget, without memory.
func (r *Reservation) Another() *Reservation { return r.budget.Reservation() }

// TakeAnswer reserves the memory for n bytes of the answer, and returns false if it is not left. An
// answer of any size has room if there is no other answer.
func (r *Reservation) TakeAnswer(n int) bool {
	return r.take(int64(n) * AnswerCopies)
}

// Read reserves the memory for n bytes that were read for the answer, and returns false if it is not left.
// The first FreeAnswer bytes need none.
func (r *Reservation) Read(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read += int64(n)
	more := r.read*AnswerCopies - r.answer
	return r.read <= FreeAnswer || more <= 0 || r.takeLocked(more)
}

// StartPage reserves memory for the beginning of a page of a list, and returns false if none is left.
func (r *Reservation) StartPage() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	start := min(pageStart, r.budget.page, r.AnswerBytesLeft())
	more := (r.read+start)*AnswerCopies - r.answer
	return start > 0 && (more <= 0 || r.takeLocked(more))
}

// BytesRead returns how many bytes were read for the answer.
func (r *Reservation) BytesRead() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read
}

// PageBytesLeft returns how many more bytes should be read for a page of a list. The page leaves room for
// other answers.
func (r *Reservation) PageBytesLeft() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.budget.page, r.AnswerBytesLeft()+r.answer/AnswerCopies/answersAtOnce) - r.read
}

// Cover reserves the memory for an answer of n bytes in all, which exists already. It exceeds the budget if no memory
// is left.
func (r *Reservation) Cover(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if more := int64(n)*AnswerCopies - r.answer; more > 0 && !r.ended {
		r.answer += more
		r.budget.answers.Add(more)
	}
}

// Trim returns the memory that was reserved for rows that were not read.
func (r *Reservation) Trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if unused := r.answer - r.read*AnswerCopies; unused > 0 {
		r.answer -= unused
		r.budget.answers.Add(-unused)
	}
}

func (r *Reservation) take(memory int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takeLocked(memory)
}

func (r *Reservation) takeLocked(memory int64) bool {
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

type contextKey struct{}

// With returns a context for reads whose rows count as the answer of a request. Nil: they do not count.
func With(ctx context.Context, r *Reservation) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// Fork returns a context with another reservation of the same budget, if ctx has one, and what ends that reservation.
func Fork(ctx context.Context) (forked context.Context, end func()) {
	r := From(ctx)
	if r == nil {
		return ctx, func() {}
	}
	another := r.Another()
	return With(ctx, another), another.End
}

// From returns the reservation of a context, or nil. Its reads are then not bounded.
func From(ctx context.Context) *Reservation {
	r, _ := ctx.Value(contextKey{}).(*Reservation)
	return r
}

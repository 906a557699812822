// Package inflight bounds the memory of the requests and answers that a server processes.
//
// A body reserves memory as its bytes arrive. An answer reserves memory as its messages or rows arrive from the database. If too
// little memory is left, the body or answer is refused at once, so no request waits for the memory of another request. The server
// discards a refused body, and releases the leases of a refused answer. A slow body, or a body of a caller with more than its
// share, loses its memory to other bodies: see bodies. Claims and pages of lists get the free memory as a limit, so that few
// answers are refused. Bodies and answers have half of the budget each, so that clients that do not read their answers cannot
// stop pushes.
//
// The context of a request carries its reservation to the packages that read for it: see With and From.
package inflight

import (
	"context"
	"sync"
	"sync/atomic"
)

// BodyCopies is how many bytes of process memory one byte of a body needs, and AnswerCopies the same for an answer. Both include
// garbage that is not collected yet. `test/bench/edge inflight` measures BodyCopies, and `test/bench/edge bigpop` measures
// AnswerCopies.
const (
	BodyCopies   = 4
	AnswerCopies = 3
)

// answersAtOnce is how many answers of the size AnswerBytesLeft fit into the free memory.
const answersAtOnce = 2

const (
	// FreeAnswer is the size in bytes up to which an answer needs no reservation, so that small answers are possible when no
	// memory is left. The server writes a piece of more than FreeAnswer bytes only with a reservation.
	FreeAnswer = 64 << 10
	// pageStart is how many bytes a page of a list reserves before it is read.
	pageStart = 1 << 20
)

// Budget limits the memory of requests and answers. Any goroutine may call its methods, and no method blocks.
type Budget struct {
	half, page int64
	bodies     bodies
	answers    atomic.Int64
}

// NewBudget returns a budget of the given bytes of memory. A page of a list has at most page bytes, or one row that is larger.
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

// Reservation is the memory of one request and its answer. Any goroutine may call its methods, and no method blocks.
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

// TakeAnswer reserves memory for n bytes of the answer. It returns false if too little memory is left. An answer of any size fits
// if no other answer has memory.
func (r *Reservation) TakeAnswer(n int) bool {
	return r.take(int64(n) * AnswerCopies)
}

// Read reserves memory for n bytes that were read for the answer. It returns false if too little memory is left. An answer of at
// most FreeAnswer bytes needs no memory.
func (r *Reservation) Read(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read += int64(n)
	more := r.read*AnswerCopies - r.answer
	return r.read <= FreeAnswer || more <= 0 || r.takeLocked(more)
}

// StartPage reserves memory for the beginning of a page of a list. It returns false if no memory is left.
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

// PageBytesLeft returns how many more bytes the caller should read for a page of a list. The limit leaves memory for other
// answers.
func (r *Reservation) PageBytesLeft() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.budget.page, r.AnswerBytesLeft()+r.answer/AnswerCopies/answersAtOnce) - r.read
}

// Cover reserves memory for an answer that exists already and has n bytes in total. It may exceed the budget.
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

// AnswerBytesLeft returns the largest size in bytes that a new answer should have. It is 0 if no memory is left.
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

// With returns a context whose reads count as the answer of the request with the reservation r. If r is nil, these reads do not
// count.
func With(ctx context.Context, r *Reservation) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// Fork returns a context with a new reservation of the same budget, and a function that ends this reservation. If ctx has no
// reservation, Fork returns ctx.
func Fork(ctx context.Context) (forked context.Context, end func()) {
	r := From(ctx)
	if r == nil {
		return ctx, func() {}
	}
	another := r.Another()
	return With(ctx, another), another.End
}

// From returns the reservation of a context. Nil: the reads of the context have no limit.
func From(ctx context.Context) *Reservation {
	r, _ := ctx.Value(contextKey{}).(*Reservation)
	return r
}

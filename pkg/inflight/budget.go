// Package inflight bounds the memory of the requests and answers that a server has in hand.
//
// A body takes from the budget as its bytes arrive, and a request that finds no room is refused: it
// holds nothing while it waits, so requests cannot block each other. The messages of an answer are
// claimed when their size becomes known, so an answer is never refused. Instead, claims deliver fewer
// messages when little is left, and new pops are refused until the answers are written. Bodies and
// answers have half of the budget each, so that clients that do not read cannot stop pushes.
package inflight

import "sync/atomic"

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

// TakeBody reserves the memory for n bytes of a body and reports whether it was left. GiveBackBody
// returns it.
func (b *Budget) TakeBody(n int64) (memory int64, ok bool) {
	memory = n * BodyCopies
	if b.bodies.Add(memory) > b.half {
		b.bodies.Add(-memory)
		return 0, false
	}
	return memory, true
}

// HoldAnswer reserves the memory for an answer of n bytes, also when it is not left. GiveBackAnswer
// returns it.
func (b *Budget) HoldAnswer(n int64) (memory int64) {
	memory = n * AnswerCopies
	b.answers.Add(memory)
	return memory
}

// GiveBackBody returns memory that TakeBody reserved.
func (b *Budget) GiveBackBody(memory int64) { b.bodies.Add(-memory) }

// GiveBackAnswer returns memory that HoldAnswer reserved.
func (b *Budget) GiveBackAnswer(memory int64) { b.answers.Add(-memory) }

// Used returns the reserved memory in bytes.
func (b *Budget) Used() int64 { return b.bodies.Load() + b.answers.Load() }

// AnswerBytes returns the largest answer that a claim should make now.
func (b *Budget) AnswerBytes() int64 {
	return max(0, b.half-b.answers.Load()) / (AnswerCopies * answersAtOnce)
}

// FullOfAnswers reports whether nothing is left for answers.
func (b *Budget) FullOfAnswers() bool { return b.answers.Load() >= b.half }

// Package inflight bounds the memory of the requests and answers that a server has in hand.
//
// A body takes from the budget as its bytes arrive, and a request that finds no room is refused: it
// holds nothing while it waits, so requests cannot block each other. The messages of an answer are
// claimed when their size becomes known, so an answer is never refused. Instead, claims deliver fewer
// messages when little is left, and bodies and new pops are refused until the answers are written.
package inflight

import "sync/atomic"

// The memory of a process for one byte of a body and of an answer, with garbage that is not collected
// yet. Run test/bench/edge inflight to measure the first, and bigpop to measure the second.
const (
	BodyCopies   = 6
	AnswerCopies = 3
)

// answersAtOnce is how many claims of the largest size together fit into what is left.
const answersAtOnce = 4

// Budget bounds bytes. Its methods may be called by any goroutine, and none blocks.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget returns a budget of some bytes of memory.
func NewBudget(bytes int64) *Budget { return &Budget{max: bytes} }

// TakeBody reserves the memory for n bytes of a body and reports whether it was left. GiveBack returns it.
func (b *Budget) TakeBody(n int64) (memory int64, ok bool) {
	memory = n * BodyCopies
	if b.used.Add(memory) > b.max {
		b.used.Add(-memory)
		return 0, false
	}
	return memory, true
}

// HoldAnswer reserves the memory for an answer of n bytes, also when it is not left. GiveBack returns it.
func (b *Budget) HoldAnswer(n int64) (memory int64) {
	memory = n * AnswerCopies
	b.used.Add(memory)
	return memory
}

// GiveBack returns memory that TakeBody or HoldAnswer reserved.
func (b *Budget) GiveBack(memory int64) { b.used.Add(-memory) }

// Used returns the reserved memory in bytes.
func (b *Budget) Used() int64 { return b.used.Load() }

// AnswerBytes returns the largest answer that a claim should make now.
func (b *Budget) AnswerBytes() int64 {
	return max(0, b.max-b.used.Load()) / (AnswerCopies * answersAtOnce)
}

// Full reports whether nothing is left.
func (b *Budget) Full() bool { return b.used.Load() >= b.max }

package claim

import (
	"hash/maphash"
	"math"
	"sync/atomic"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// messageSizes are the sizes of the messages that were delivered lately, by queue. Two queues may share
// an entry: it is an estimate.
type messageSizes struct {
	seed   maphash.Seed
	recent [1024]atomic.Int64
}

// firstSize is the estimate for a queue of which nothing was delivered.
const firstSize = 1024

func newMessageSizes() *messageSizes { return &messageSizes{seed: maphash.MakeSeed()} }

func (s *messageSizes) of(queueName string) *atomic.Int64 {
	return &s.recent[maphash.String(s.seed, queueName)%uint64(len(s.recent))]
}

// estimate returns the expected size of a message.
func (s *messageSizes) estimate(queueName string) int {
	return max(firstSize, int(s.of(queueName).Load()))
}

// learn notes the mean size of the messages of a delivery. The estimate rises at once and falls slowly.
func (s *messageSizes) learn(queueName string, mean int) {
	recent := s.of(queueName)
	old := recent.Load()
	recent.Store(max(int64(mean), old-old/8))
}

// memory is what a call has reserved of the memory of its request.
type memory struct {
	of queue.AnswerMemory // nil: not bounded
	// reserved is in bytes of messages, and so is used, which the messages of the result have.
	reserved, used int
	// full: no room was left.
	full bool
}

// reserve reserves the memory for a message of the given size, and for as many of n messages as a pop
// should deliver now. It returns false if nothing is left.
func (m *memory) reserve(n, size int) bool {
	if m.of == nil {
		return true
	}
	want := max(size, min(n*size, int(m.of.AnswerBytesLeft())))
	if m.full = !m.of.TakeAnswer(want); !m.full {
		m.reserved = want
	}
	return !m.full
}

// bytesLeft returns how many bytes the claim should deliver.
func (m *memory) bytesLeft() int64 {
	if m.of == nil {
		return math.MaxInt64
	}
	return max(int64(m.reserved), m.of.AnswerBytesLeft())
}

// use reserves more memory if a message of n bytes exceeds what is reserved, and returns false if it is
// not left.
func (m *memory) use(n int) bool {
	if m.of == nil {
		return true
	}
	m.used += n
	if more := m.used - m.reserved; more > 0 && !m.full {
		if m.full = !m.of.TakeAnswer(more); !m.full {
			m.reserved += more
		}
	}
	return !m.full
}

// trim returns what is reserved and not used.
func (m *memory) trim() {
	if unused := m.reserved - m.used; unused > 0 {
		m.of.ReturnAnswer(unused)
		m.reserved = m.used
	}
}

// free returns everything.
func (m *memory) free() {
	m.used = 0
	m.trim()
}

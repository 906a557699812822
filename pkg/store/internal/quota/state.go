package quota

import (
	"fmt"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// state is what is known of one queue.
type state struct {
	mu sync.Mutex
	// limit and depth are the result of the last measurement, which counts until freshUntil.
	limit, depth int64
	freshUntil   time.Time
	// inFlight are the messages that were admitted and not settled, and stored the messages that were
	// stored since the last measurement began. A message in flight when the measurement begins may be
	// counted in depth and later in stored too: the sum may be too high, never too low.
	inFlight, stored int64
	// measuring is closed at the end of the running measurement; nil: none is running.
	measuring chan struct{}
}

// try admits n messages if the last measurement still counts. If it does not and measuring is nil,
// the caller must measure.
func (s *state) try(n int64) (admitted, fresh bool, measuring chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.freshUntil) {
		if s.waiting()+n > s.limit {
			return false, true, nil
		}
		s.inFlight += n
		return true, true, nil
	}
	if s.measuring == nil {
		s.measuring = make(chan struct{})
		s.stored = 0
		return false, false, nil
	}
	return false, false, s.measuring
}

// waiting returns how many messages wait in the queue.
func (s *state) waiting() int64 { return s.depth + s.inFlight + s.stored }

func (s *state) settle(n int64, stored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight -= n
	if stored {
		s.stored += n
	}
}

// room returns for how many messages the queue seems to have room.
func (s *state) room() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.limit-s.waiting())
}

// full returns the refusal of d.
func (s *state) full(d Demand) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	advice := "send it again once consumers have caught up, or raise maxSize"
	if d.Messages > s.limit {
		advice = "send fewer items a call, or raise maxSize"
	}
	return &queue.Error{
		Code: queue.CodeQueueFull, RetryAfter: retryAfter,
		Message: fmt.Sprintf("queue %q is full: its maxSize is %d, %d messages wait in it and this request brings %d; nothing of it was stored: %s",
			d.Queue, s.limit, s.waiting(), d.Messages, advice),
	}
}

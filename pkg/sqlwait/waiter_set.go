package sqlwait

import (
	"sync"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxChannels bounds the channels that a Watcher watches.
const maxChannels = 10_000

// waiterSet holds the loops by channel.
type waiterSet struct {
	mu sync.Mutex
	m  map[string]*waiterLoop
	// fresh are the loops that do not run yet. It has room for all loops.
	fresh chan *waiterLoop
}

func newWaiterSet() *waiterSet {
	return &waiterSet{m: map[string]*waiterLoop{}, fresh: make(chan *waiterLoop, maxChannels)}
}

// add notes that a waiter announced itself. It returns false if there are too many channels.
func (s *waiterSet) add(waiter queue.SQLWaiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.m[waiter.Channel]
	if l == nil {
		if len(s.m) == maxChannels {
			return false
		}
		l = &waiterLoop{waiter: waiter, announced: make(chan struct{}, 1)}
		s.m[waiter.Channel] = l
		s.fresh <- l
	}
	setSignal(l.announced)
	return true
}

// setSignal sends a value, unless one is pending.
func setSignal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drop removes a loop. It returns false if a waiter has just announced itself.
func (s *waiterSet) drop(l *waiterLoop) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.announced) > 0 {
		return false
	}
	delete(s.m, l.waiter.Channel)
	return true
}

func (s *waiterSet) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.m)
}

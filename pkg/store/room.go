package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// roomFresh and roomStale bound how long a look at a queue's depth counts. In
	// between it is twenty times what the look took, so that looking takes a
	// twentieth of one connection at most, unless a queue is so large that this
	// would be longer than roomStale.
	roomFresh = 5 * time.Millisecond
	roomStale = 100 * time.Millisecond
	// roomRetry is what a producer is told to wait when a queue is full.
	roomRetry = time.Second
	// maxRooms bounds how many queues with a maxSize are remembered. A full table
	// is emptied: then this instance may exceed maxSize by what it has in flight.
	maxRooms = 10_000
)

// rooms say how much room there is in queues with a maxSize. They cost a queue
// without one nothing, and no push writes a row that others write (I11): the depth
// is computed now and then, and in between this instance adds what it pushes.
type rooms struct {
	mu     sync.Mutex
	queues map[int64]*room
}

// room is one queue.
type room struct {
	mu sync.Mutex
	// limit and depth are as the last look found them. They count until the instant
	// until.
	limit, depth int64
	until        time.Time
	// flying is what was admitted and has not been answered, and stored what was
	// stored since the last look began. What flies when it begins may be in depth
	// and, later, in stored: for as long as the look counts that is too much, never
	// too little.
	flying, stored int64
	// looking is closed at the end of a look; nil: nobody looks.
	looking chan struct{}
}

func newRooms() *rooms { return &rooms{queues: map[int64]*room{}} }

func (r *rooms) of(key int64) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.queues[key]; one != nil {
		return one
	}
	if len(r.queues) >= maxRooms {
		r.queues = map[int64]*room{}
	}
	one := &room{}
	r.queues[key] = one
	return one
}

// admit takes room for counts messages in the given partitions, all or nothing.
// What takes it must call settle once, and say whether they were stored or may
// have been. Errors: CodeQueueFull, and what a query may end with. ctx ends it.
func (s *Store) admit(ctx context.Context, partitions []*queue.Partition, counts []int64) (settle func(stored bool), err error) {
	type share struct {
		room *room
		n    int64
	}
	if !slices.ContainsFunc(partitions, func(p *queue.Partition) bool { return p.Bounded }) {
		return func(bool) {}, nil
	}
	wanted, names := map[int64]int64{}, map[int64]string{}
	for i, p := range partitions {
		if p.Bounded {
			wanted[p.QueueKey] += counts[i]
			names[p.QueueKey] = p.Queue
		}
	}
	var taken []share
	settle = func(stored bool) {
		for _, t := range taken {
			t.room.settle(t.n, stored)
		}
	}
	for key, n := range wanted {
		one := s.rooms.of(key)
		if err := s.take(ctx, one, key, names[key], n); err != nil {
			settle(false)
			return nil, err
		}
		taken = append(taken, share{one, n})
	}
	return settle, nil
}

// take takes room for n messages in a queue.
func (s *Store) take(ctx context.Context, r *room, key int64, name string, n int64) error {
	for {
		admitted, fresh, looking := r.try(n)
		if fresh {
			if admitted {
				return nil
			}
			return r.full(name, n)
		}
		if looking == nil {
			limited, err := s.look(ctx, r, key, n)
			if err != nil || !limited {
				return err
			}
			continue
		}
		select {
		case <-looking:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try takes room for n messages if the last look still counts. If it does not and
// looking is nil, the caller must look.
func (r *room) try(n int64) (admitted, fresh bool, looking chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) {
		if r.waiting()+n > r.limit {
			return false, true, nil
		}
		r.flying += n
		return true, true, nil
	}
	if r.looking == nil {
		r.looking = make(chan struct{})
		r.stored = 0
		return false, false, nil
	}
	return false, false, r.looking
}

func (r *room) waiting() int64 { return r.depth + r.flying + r.stored }

func (r *room) settle(n int64, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying -= n
	if stored {
		r.stored += n
	}
}

// takeSome takes room for n messages in a queue, or for as many as there is room
// for, and returns how many.
func (s *Store) takeSome(ctx context.Context, r *room, key int64, name string, n int64) (granted int64, err error) {
	for n > 0 {
		err := s.take(ctx, r, key, name, n)
		if queue.CodeOf(err) != queue.CodeQueueFull {
			return n, err
		}
		n = min(n-1, r.left())
	}
	return 0, nil
}

// left is how much room there seems to be.
func (r *room) left() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, r.limit-r.waiting())
}

// look computes the depth of a queue and tells those who wait for it. When there is
// no limit any more, or no queue, it takes room for n messages, and its outcome does
// not count for others: a limit may be set the next instant, and the push finds out
// by itself whether what it remembers is true.
func (s *Store) look(ctx context.Context, r *room, key, n int64) (limited bool, err error) {
	began := time.Now()
	var limit, depth int64
	err = s.pool.QueryRow(ctx, sqlQueueDepth, key).Scan(&limit, &depth)
	if postgres.IsNoRows(err) {
		err = nil
	}
	ended := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && limit == 0 {
		r.flying += n
	} else if err == nil {
		r.limit, r.depth = limit, depth
		r.until = ended.Add(min(max(20*ended.Sub(began), roomFresh), roomStale))
	}
	close(r.looking)
	r.looking = nil
	if err != nil {
		return false, fmt.Errorf("looking for room in a queue: %w", err)
	}
	return limit > 0, nil
}

// full is the refusal of n messages.
func (r *room) full(name string, n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	advice := "send it again once consumers have caught up, or raise maxSize"
	if n > r.limit {
		advice = "send fewer items a call, or raise maxSize"
	}
	return &queue.Error{
		Code: queue.CodeQueueFull, RetryAfter: roomRetry,
		Message: fmt.Sprintf("queue %q is full: its maxSize is %d, %d messages wait in it and this request brings %d; nothing of it was stored: %s",
			name, r.limit, r.waiting(), n, advice),
	}
}

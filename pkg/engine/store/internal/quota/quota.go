// Package quota admits pushes to queues with a maxSize.
//
// No push may write a row that other pushes write (I11 of package store), so the database has no
// counter. Instead each instance measures the depth of a queue now and then and adds what it pushed
// since. Therefore several instances together may exceed maxSize by what the other instances stored
// since the last measurement.
//
// A push waits for a measurement only if it does not fit by the last one, or if that is too old.
// Otherwise the push goes on during the measurement. Queues without a maxSize cost nothing. The package knows
// no table: the caller supplies the measurement. It is imported by the other packages below pkg/engine/store.
package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// minFresh and maxFresh bound how long a measurement counts. In between it counts twenty times as
	// long as it took, so that measuring uses a twentieth of one connection at most, unless a queue
	// is so large that twenty times is longer than maxFresh.
	minFresh = 5 * time.Millisecond
	maxFresh = time.Second
	// mayBeOlder is how much longer a measurement counts for a push that fits by it, while the next one
	// is made.
	mayBeOlder = time.Second
	// maxUnreadFresh replaces maxFresh while no group reads the whole queue: then hardly anything
	// makes room, and the measurement examines every partition.
	maxUnreadFresh = time.Minute
	// retryAfter is how long a producer should wait when a queue is full.
	retryAfter = time.Second
	// maxQueues bounds the table. A full table is emptied; then this instance may exceed maxSize by
	// what it has in flight.
	maxQueues = 10_000
)

// Depth is a measurement of a queue.
type Depth struct {
	// Limit is the maxSize; 0 means that there is no limit, or no queue.
	Limit int64
	// Waiting is the number of messages that wait.
	Waiting int64
	// Unread: no group reads the whole queue.
	Unread bool
}

// DepthFunc measures a queue. It must return within a time of its own, and when ctx ends.
type DepthFunc func(ctx context.Context, queueKey int64) (Depth, error)

// Quotas admits messages to queues. It is safe for concurrent use.
type Quotas struct {
	depth  DepthFunc
	mu     sync.Mutex
	queues map[int64]*state
	// background counts the measurements that no push waits for.
	background sync.WaitGroup
	// closing ends with Close, and with it all measurements. The end of a push does not end a measurement,
	// because other pushes wait for it.
	closing context.Context
	close   context.CancelFunc
}

// New returns Quotas that measure with depth.
func New(depth DepthFunc) *Quotas {
	q := &Quotas{depth: depth, queues: map[int64]*state{}}
	q.closing, q.close = context.WithCancel(context.Background())
	return q
}

// Close ends the measurements and waits for them. It must be called after the last push.
func (q *Quotas) Close() {
	q.close()
	q.background.Wait()
}

// Demand is how many messages a push brings to a queue with a maxSize.
type Demand struct {
	QueueKey int64
	Queue    string
	Messages int64
}

// Admission is what was admitted. The zero Admission is empty.
type Admission struct{ shares []share }

type share struct {
	key   int64
	state *state
	n     int64
}

// Outcome is what became of admitted messages.
type Outcome int

const (
	// NotStored messages do not count any more.
	NotStored Outcome = iota
	// Stored messages count until the next measurement.
	Stored
	// Unknown messages may be stored, and count. The queue is measured before a push is refused because of them.
	Unknown
)

// Settle ends the admission. It must be called once.
func (a Admission) Settle(outcome Outcome) {
	for _, s := range a.shares {
		s.state.settle(s.n, outcome)
	}
}

// Granted returns how many messages were admitted, by queue.
func (a Admission) Granted() map[int64]int64 {
	granted := make(map[int64]int64, len(a.shares))
	for _, s := range a.shares {
		granted[s.key] = s.n
	}
	return granted
}

// Admit admits all messages or none. It blocks while a queue is measured. Errors: CodeQueueFull, the
// error of the measurement, and the end of ctx.
func (q *Quotas) Admit(ctx context.Context, demands []Demand) (Admission, error) {
	return q.admit(ctx, demands, false)
}

// AdmitSome admits of each demand as many messages as the queue has room for. Errors: the error of
// the measurement, and the end of ctx.
func (q *Quotas) AdmitSome(ctx context.Context, demands []Demand) (Admission, error) {
	return q.admit(ctx, demands, true)
}

func (q *Quotas) admit(ctx context.Context, demands []Demand, some bool) (Admission, error) {
	var a Admission
	for _, d := range demands {
		s := q.state(d.QueueKey)
		granted := d.Messages
		err := q.take(ctx, s, d)
		if some {
			granted, err = q.takeSome(ctx, s, d, err)
		}
		if err != nil {
			a.Settle(NotStored)
			return Admission{}, err
		}
		a.shares = append(a.shares, share{d.QueueKey, s, granted})
	}
	return a, nil
}

func (q *Quotas) state(key int64) *state {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.queues[key]; s != nil {
		return s
	}
	if len(q.queues) >= maxQueues {
		q.queues = map[int64]*state{}
	}
	s := &state{}
	q.queues[key] = s
	return s
}

// take admits the messages of d, and measures the queue when the last measurement no longer counts.
func (q *Quotas) take(ctx context.Context, s *state, d Demand) error {
	for {
		verdict, measuring := s.try(d.Messages)
		switch verdict {
		case admitted:
			return nil
		case admittedByOld:
			q.background.Go(func() {
				// After a failure the next push measures again, and a push that waits for it has the error.
				_, _ = q.measure(s, Demand{QueueKey: d.QueueKey, Queue: d.Queue})
			})
			return nil
		case refused:
			return s.full(d)
		case mustMeasure:
			limited, err := q.measure(s, d)
			if err != nil || !limited {
				return err
			}
			continue
		case mustWait:
		}
		select {
		case <-measuring:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takeSome continues after take has ended with err. If the queue is full, it admits as many messages as fit.
func (q *Quotas) takeSome(ctx context.Context, s *state, d Demand, err error) (granted int64, _ error) {
	for queue.CodeOf(err) == queue.CodeQueueFull {
		if d.Messages = min(d.Messages-1, s.room()); d.Messages == 0 {
			return 0, nil
		}
		err = q.take(ctx, s, d)
	}
	return d.Messages, err
}

// measure measures the queue and wakes the callers that wait for it. When the queue has no limit any
// more, it admits d without a limit, and the measurement does not count for other callers: a limit
// may be set the next instant, and the push itself verifies what it remembers about the queue.
func (q *Quotas) measure(s *state, d Demand) (limited bool, err error) {
	began := time.Now()
	depth, err := q.depth(q.closing, d.QueueKey)
	ended := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && depth.Limit == 0 {
		s.inFlight += d.Messages
	} else if err == nil {
		longest := maxFresh
		if depth.Unread {
			longest = maxUnreadFresh
		}
		s.limit, s.depth = depth.Limit, depth.Waiting
		s.freshUntil = ended.Add(min(max(20*ended.Sub(began), minFresh), longest))
	}
	close(s.measuring)
	s.measuring = nil
	if err != nil {
		return false, fmt.Errorf("measuring the depth of queue %q: %w", d.Queue, err)
	}
	return depth.Limit > 0, nil
}

// state is what is known of one queue.
type state struct {
	mu sync.Mutex
	// limit and depth are the result of the last measurement, which counts until freshUntil, and
	// mayBeOlder after that for pushes that fit.
	limit, depth int64
	freshUntil   time.Time
	// inFlight are the messages that were admitted and not settled, and stored the messages that were
	// stored since the last measurement began. A message in flight when the measurement begins may be
	// counted in depth and later in stored too: the sum may be too high, never too low.
	inFlight, stored int64
	// uncertain: some of the messages in stored may not be stored.
	uncertain bool
	// measuring is closed at the end of the running measurement; nil: none is running.
	measuring chan struct{}
}

// verdict is what becomes of a push.
type verdict int

const (
	admitted verdict = iota
	// admittedByOld: admitted, and the caller must measure the queue for later pushes.
	admittedByOld
	// refused: the queue is full.
	refused
	// mustMeasure: the caller must measure the queue and try again.
	mustMeasure
	// mustWait: another caller measures the queue.
	mustWait
)

// try admits n messages if they fit by the last measurement and it counts. measuring is closed at the
// end of the running measurement.
func (s *state) try(n int64) (v verdict, measuring chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	fits := s.waiting()+n <= s.limit && now.Before(s.freshUntil.Add(mayBeOlder))
	fresh := now.Before(s.freshUntil)
	if fits {
		s.inFlight += n
	}
	switch {
	case fits && (fresh || s.measuring != nil):
		return admitted, nil
	case fresh && !s.uncertain:
		return refused, nil
	case s.measuring != nil:
		return mustWait, s.measuring
	}
	s.measuring = make(chan struct{})
	s.depth, s.stored, s.uncertain = s.depth+s.stored, 0, false // the sum, until the measurement replaces it
	if fits {
		return admittedByOld, nil
	}
	return mustMeasure, nil
}

// waiting returns how many messages wait in the queue.
func (s *state) waiting() int64 { return s.depth + s.inFlight + s.stored }

func (s *state) settle(n int64, outcome Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight -= n
	if outcome != NotStored {
		s.stored += n
	}
	s.uncertain = s.uncertain || outcome == Unknown
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

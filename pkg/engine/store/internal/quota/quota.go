// Package quota admits pushes to queues with a maxSize.
//
// No push may write a row that other pushes write (I11 of package store), so the database has no
// counter. Instead, each instance measures the depth of a queue now and then, and adds the messages
// that it has pushed after the measurement. It does not know the messages that other instances
// pushed after the measurement. So several instances together may exceed maxSize by that number of
// messages.
//
// A push waits for a new measurement only if it does not fit by the last measurement, or if the last
// measurement is too old. Otherwise the push continues during the measurement. Queues without a maxSize are
// never measured. The caller supplies the function that measures. Other packages below pkg/engine/store
// import this package.
package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// minFresh and maxFresh bound the time that a measurement is valid. Within these bounds it is
	// valid for twenty times its own duration. So measuring uses at most a twentieth of one
	// connection, unless a measurement takes longer than maxFresh / 20.
	minFresh = 5 * time.Millisecond
	maxFresh = time.Second
	// mayBeOlder is the additional time that a measurement is valid for a push that fits. The next
	// measurement runs in this time.
	mayBeOlder = time.Second
	// maxUnreadFresh replaces maxFresh while no group reads the whole queue. Such a queue rarely
	// gets shorter, and its measurement examines every partition.
	maxUnreadFresh = time.Minute
	// retryAfter is the Retry-After of the answer that a queue is full.
	retryAfter = time.Second
	// maxQueues bounds the table. A full table is cleared. Then this instance may exceed maxSize by
	// the messages that it is pushing at that moment.
	maxQueues = 10_000
)

// Depth is a measurement of a queue.
type Depth struct {
	// Limit is the maxSize. It is 0 if the queue has no limit or does not exist.
	Limit int64
	// Waiting is the number of messages that wait.
	Waiting int64
	// Unread is set if no group reads the whole queue.
	Unread bool
}

// DepthFunc measures a queue. It must bound its own time, and return when ctx ends.
type DepthFunc func(ctx context.Context, queueKey int64) (Depth, error)

// Quotas admits messages to queues. It is safe for concurrent use.
type Quotas struct {
	depth  DepthFunc
	mu     sync.Mutex
	queues map[int64]*state
	// background counts the measurements that no push waits for.
	background sync.WaitGroup
	// closing is the context of all measurements. Close ends it. The end of a push does not end a
	// measurement, because other pushes may wait for the measurement.
	closing context.Context
	close   context.CancelFunc
}

// New returns Quotas that measure with depth.
func New(depth DepthFunc) *Quotas {
	q := &Quotas{depth: depth, queues: map[int64]*state{}}
	q.closing, q.close = context.WithCancel(context.Background())
	return q
}

// Close ends the measurements and waits until they have ended. Call it after the last push.
func (q *Quotas) Close() {
	q.close()
	q.background.Wait()
}

// Demand is the number of messages that a push adds to a queue with a maxSize.
type Demand struct {
	QueueKey int64
	Queue    string
	Messages int64
}

// Admission holds the admitted messages of a push. The zero Admission is empty.
type Admission struct{ shares []share }

type share struct {
	key   int64
	state *state
	n     int64
}

// Outcome says whether admitted messages were stored.
type Outcome int

const (
	// NotStored means that the messages do not count any more.
	NotStored Outcome = iota
	// Stored means that the messages count until the next measurement.
	Stored
	// Unknown means that the messages may be stored. They count, but the queue is measured before a push is
	// refused because of them.
	Unknown
)

// Settle ends the admission. Call it once.
func (a Admission) Settle(outcome Outcome) {
	for _, s := range a.shares {
		s.state.settle(s.n, outcome)
	}
}

// Granted returns the number of admitted messages by queue.
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

// AdmitSome admits, for each demand, only the messages that fit into the queue. Errors: the error
// of the measurement, and the end of ctx.
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

// take admits the messages of d. It measures the queue if the last measurement is no longer valid.
func (q *Quotas) take(ctx context.Context, s *state, d Demand) error {
	for {
		verdict, measuring := s.try(d.Messages)
		switch verdict {
		case admitted:
			return nil
		case admittedByOld:
			q.background.Go(func() {
				// The error is ignored, because the next push measures again.
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

// measure measures the queue and wakes the callers that wait for the measurement. If the queue has
// no limit any more, measure admits d. Such a measurement is not kept for other callers, because a
// limit may be set at any time. The statement of the push checks again whether the queue has a
// limit.
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

// state is the last measurement of one queue, with the messages admitted since.
type state struct {
	mu sync.Mutex
	// limit and depth are the result of the last measurement. It is valid until freshUntil, and for
	// pushes that fit until mayBeOlder after freshUntil.
	limit, depth int64
	freshUntil   time.Time
	// inFlight is the number of admitted messages without an outcome. stored is the number of
	// messages stored since the last measurement began. A message that is in flight when the
	// measurement begins may count in depth and later in stored. So the sum may be too high, but
	// never too low.
	inFlight, stored int64
	// uncertain is set if some messages counted in stored may not be stored.
	uncertain bool
	// measuring is closed at the end of the running measurement. It is nil if no measurement runs.
	measuring chan struct{}
}

// verdict is the result of try.
type verdict int

const (
	admitted verdict = iota
	// admittedByOld means that the messages are admitted, and that the caller must measure the
	// queue for later pushes.
	admittedByOld
	// refused means that the queue is full.
	refused
	// mustMeasure means that the caller must measure the queue and try again.
	mustMeasure
	// mustWait means that another caller measures the queue.
	mustWait
)

// try admits n messages if the last measurement is valid and they fit. With mustWait, measuring is
// closed at the end of the running measurement.
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

// waiting returns the number of messages that wait in the queue, by the last measurement.
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

// room returns the number of messages that still fit into the queue, by the last measurement.
func (s *state) room() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.limit-s.waiting())
}

// full returns the error that refuses d.
func (s *state) full(d Demand) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	advice := "send it again once consumers have caught up, or raise maxSize"
	if d.Messages > s.limit {
		advice = "send fewer items per call, or raise maxSize"
	}
	return &queue.Error{
		Code: queue.CodeQueueFull, RetryAfter: retryAfter,
		Message: fmt.Sprintf("queue %q is full: its maxSize is %d, %d messages wait in it and this request brings %d; nothing of it was stored: %s",
			d.Queue, s.limit, s.waiting(), d.Messages, advice),
	}
}

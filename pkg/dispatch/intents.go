package dispatch

import (
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Intents are the requests that are waiting.
type Intents struct {
	metrics *Metrics
	mu      sync.Mutex
	m       map[*intent]struct{}
	// life is the latest one that somebody waits for something in.
	life queue.Epoch
	// crowds are the targets somebody waits for.
	crowds map[queue.Target]*crowd
	// queues are the targets of crowds by the queue they belong to.
	queues map[string]map[queue.Target]struct{}
	// swept and born are the latest doubt and birth.
	swept, born told
}

// crowd is those who wait for the same target.
type crowd struct {
	members map[*intent]struct{}
	// told is the latest announcement about it.
	told told
}

// lone returns the only member, or nil when there are more.
func (c *crowd) lone() *intent {
	if len(c.members) == 1 {
		for in := range c.members {
			return in
		}
	}
	return nil
}

// told is where an announcement came from, and when.
type told struct {
	source wakeSource
	at     time.Time
}

// NewIntents returns an empty registry of waiting requests.
func NewIntents(metrics *Metrics) *Intents {
	return &Intents{
		metrics: metrics, m: map[*intent]struct{}{}, crowds: map[queue.Target]*crowd{}, queues: map[string]map[queue.Target]struct{}{},
	}
}

func (r *Intents) add(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m[in] = struct{}{}
}

func (r *Intents) remove(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.m, in)
	r.moveLocked(in, queue.Target{})
}

// waitsFor notes what the intent waits for; the zero Target is nothing known.
func (r *Intents) waitsFor(in *intent, target queue.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moveLocked(in, target)
}

func (r *Intents) moveLocked(in *intent, target queue.Target) {
	if in.counted == target {
		return
	}
	name := in.req.Queue
	if c := r.crowds[in.counted]; c != nil {
		if delete(c.members, in); len(c.members) == 0 {
			delete(r.crowds, in.counted)
			if delete(r.queues[name], in.counted); len(r.queues[name]) == 0 {
				delete(r.queues, name)
			}
		}
	}
	in.counted = target
	if target == (queue.Target{}) {
		return
	}
	r.life = target.Epoch
	c := r.crowds[target]
	if c == nil {
		c = &crowd{members: map[*intent]struct{}{}}
		r.crowds[target] = c
		if r.queues[name] == nil {
			r.queues[name] = map[queue.Target]struct{}{}
		}
		r.queues[name][target] = struct{}{}
	}
	c.members[in] = struct{}{}
}

// alone says whether nobody else waits for the target.
func (r *Intents) alone(target queue.Target) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.crowds[target]
	return c == nil || len(c.members) <= 1
}

// tell notes where an announcement about targets came from; of which life, it does not
// say.
func (r *Intents) tell(source wakeSource, at time.Time, targets ...queue.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, target := range targets {
		target.Epoch = r.life
		if c := r.crowds[target]; c != nil {
			c.told = told{source, at}
		}
	}
}

func (r *Intents) tellBirth(source wakeSource, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.born = told{source, at}
}

func (r *Intents) tellDoubt(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swept = told{wakeSweep, at}
}

// source says what woke an intent whose ticket was taken at armed: what was told
// since, and the timer if nothing was.
func (r *Intents) source(in *intent, armed time.Time) wakeSource {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := []told{r.swept}
	if c := r.crowds[in.counted]; c != nil {
		heard = append(heard, c.told)
	} else {
		heard = append(heard, r.born)
	}
	for _, t := range heard {
		if !t.at.IsZero() && !t.at.Before(armed) {
			return t.source
		}
	}
	return wakeTimer
}

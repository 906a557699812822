package source

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// minAge is how long an answer is used at least, although changes have happened since.
	minAge = 400 * time.Millisecond
	// The answer to a slow read is used for slowness times the duration of the read, if this is longer than minAge.
	slowness = 4
	// maxAge is how long an answer is used without a change. It bounds the age of history figures, which change without
	// an event.
	maxAge = 30 * time.Second
	// maxAnswers bounds the kept answers. A new answer replaces the oldest one.
	maxAnswers = 500
	// readTimeout bounds a read. A read continues after its caller has disconnected, because other callers may wait for
	// the answer.
	readTimeout = 30 * time.Second
)

// answer is one answer of the API, finished or still being read.
type answer struct {
	// done is closed when the other fields are set.
	done  chan struct{}
	value any
	err   error
	// asked is when the read started. count is the number of changes at that time.
	asked time.Time
	count uint64
	// good is how long the answer is used although changes have happened since.
	good time.Duration
	// size is about how many bytes of memory the answer uses.
	size int64
}

// usable reports whether a finished answer may be used. need is the number of changes that it must include. count is the
// number of all changes so far.
func (a *answer) usable(now time.Time, need, count uint64) bool {
	age := now.Sub(a.asked)
	return a.err == nil && a.count >= need && age < maxAge && (a.count >= count || age < a.good)
}

// answers keeps answers by their key.
type answers struct {
	mu   sync.Mutex
	kept map[string]*answer
	// least is the number of changes that every used answer must include. A caller that makes a change raises it, so that
	// its next page includes the change.
	least uint64
}

// forgetLarge removes a finished answer if it is larger than inflight.FreeAnswer.
func (a *answers) forgetLarge(key string, one *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one.size > inflight.FreeAnswer && a.kept[key] == one {
		delete(a.kept, key)
	}
}

// get returns the kept answer of a key, if it is being read or usable. Otherwise it returns a new answer with mine true,
// and the caller must finish this answer.
func (a *answers) get(key string, need, count uint64) (found *answer, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.kept[key]; found != nil && (!found.isDone() || found.usable(time.Now(), max(need, a.least), count)) {
		return found, false
	}
	if len(a.kept) >= maxAnswers && a.kept[key] == nil {
		a.forgetOldest()
	}
	found = &answer{done: make(chan struct{}), asked: time.Now(), count: count}
	a.kept[key] = found
	return found, true
}

// expire forbids the use of answers that include fewer than count changes.
func (a *answers) expire(count uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.least = max(a.least, count)
}

// forgetOldest removes the oldest answer. The caller holds mu.
func (a *answers) forgetOldest() {
	var oldest string
	for key, one := range a.kept {
		if oldest == "" || one.asked.Before(a.kept[oldest].asked) {
			oldest = key
		}
	}
	delete(a.kept, oldest)
}

// Read returns the answer to GET path as a *T. Callers share the *T and must not modify it. Errors: *Error, and the error
// of ctx.
func Read[T any](ctx context.Context, c *Client, caller *Caller, path string) (*T, error) {
	need := c.changes.Count()
	if !caller.Fresh {
		need = min(need, caller.Least)
	}
	for {
		key := caller.key() + " " + path
		one, mine := c.answers.get(key, need, c.changes.Count())
		if mine {
			ctx, end := inflight.Fork(context.WithoutCancel(ctx)) // other callers may wait for the answer after this caller has disconnected
			go func() {
				defer end()
				fill[T](ctx, one, func(ctx context.Context, out any) error {
					return c.send(ctx, caller, call{http.MethodGet, path, nil}, out)
				})
				c.answers.forgetLarge(key, one)
			}()
		}
		select {
		case <-one.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if one.count < need {
			continue
		}
		if memory := inflight.From(ctx); memory != nil && !memory.Read(int(one.size)) {
			return nil, &Error{http.StatusServiceUnavailable, queue.MemoryFull().Error()}
		}
		value, _ := one.value.(*T)
		return value, one.err
	}
}

func (a *answer) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// fill finishes an answer. Read calls it in a new goroutine, because the read must continue if the caller disconnects.
func fill[T any](ctx context.Context, one *answer, read func(ctx context.Context, out any) error) {
	defer close(one.done)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out := new(T)
	one.err = read(ctx, out)
	if memory := inflight.From(ctx); memory != nil {
		one.size = memory.BytesRead()
	}
	one.value, one.good = out, max(minAge, slowness*time.Since(one.asked))
}

// Stale returns how long to wait until every usable answer includes all changes so far.
func (c *Client) Stale() (longest time.Duration) {
	c.answers.mu.Lock()
	defer c.answers.mu.Unlock()
	now := time.Now()
	for _, one := range c.answers.kept {
		good := minAge // the minimum, for an answer that is still being read
		if one.isDone() {
			good = min(one.good, maxAge)
		}
		longest = max(longest, good-now.Sub(one.asked))
	}
	return longest
}

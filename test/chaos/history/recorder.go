package history

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Recorder records a history. It is safe for concurrent use. The caller begins an operation just before the request
// and ends it just after the answer:
//
//	operation := recorder.Begin(history.Operation{Kind: history.Push, ...})
//	... send the request, add the answer to operation ...
//	recorder.End(operation)
type Recorder struct {
	started time.Time

	mu    sync.Mutex
	last  int64
	open  map[int64]Operation
	ended []Operation
}

// NewRecorder starts a history now.
func NewRecorder() *Recorder {
	return &Recorder{started: time.Now(), open: map[int64]Operation{}}
}

// Now returns the time since the start of the history, on the clock of Begin and End. Faults and samples use the same
// clock.
func (r *Recorder) Now() time.Duration { return time.Since(r.started) }

// Began returns the start of the history.
func (r *Recorder) Began() time.Time { return r.started }

// Begin returns o with its ID and its begin. o must contain the complete request: if the operation never ends, the
// history has only the request.
func (r *Recorder) Begin(o Operation) Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	o.ID = r.last
	noted := o
	noted.Items = slices.Clone(o.Items) // the caller adds the answer to its own copy
	// The clock is read last, so that the operation does not include the time of this method.
	o.Begin = r.Now()
	noted.Begin = o.Begin
	r.open[o.ID] = noted
	return o
}

// End records o with the answer, and returns o with its end. A second End of the same operation has no effect.
func (r *Recorder) End(o Operation) Operation {
	o.End = r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.open[o.ID]; !ok {
		return o
	}
	delete(r.open, o.ID)
	o.Items = slices.Clone(o.Items)
	r.ended = append(r.ended, o)
	return o
}

// Operations returns the history so far, sorted by ID. Open operations have the outcome Unknown and end now.
func (r *Recorder) Operations() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	operations := slices.Clone(r.ended)
	now := r.Now()
	for _, o := range r.open {
		o.Outcome, o.End = Unknown, now
		operations = append(operations, o)
	}
	slices.SortFunc(operations, func(a, b Operation) int { return cmp.Compare(a.ID, b.ID) })
	return operations
}

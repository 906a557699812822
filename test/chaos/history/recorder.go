package history

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Recorder writes a history down. It is safe for concurrent use. Each operation
// is begun just before its request is sent and ended just after its answer:
//
//	operation := recorder.Begin(history.Operation{Kind: history.Push, ...})
//	... send the request, note in operation what came back ...
//	recorder.End(operation)
type Recorder struct {
	started time.Time

	mu    sync.Mutex
	last  int64
	open  map[int64]Operation
	ended []Operation
}

// NewRecorder begins a history now.
func NewRecorder() *Recorder {
	return &Recorder{started: time.Now(), open: map[int64]Operation{}}
}

// Now is the time since the history began, on the clock of Begin and End. The
// times of faults and samples are taken from it.
func (r *Recorder) Now() time.Duration { return time.Since(r.started) }

// Began is when the history did.
func (r *Recorder) Began() time.Time { return r.started }

// Begin returns o with its ID and the time it began. What the request holds must
// be in o already: if the operation is never ended, this is what is known of it.
func (r *Recorder) Begin(o Operation) Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	o.ID = r.last
	noted := o
	noted.Items = slices.Clone(o.Items) // the caller fills in the answer meanwhile
	// The clock is read last, so that nothing but the request is in between.
	o.Begin = r.Now()
	noted.Begin = o.Begin
	r.open[o.ID] = noted
	return o
}

// End records o, whose answer has just come or never will, and returns it with
// the time it ended. Ending an operation twice records it once, as it was the
// first time.
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

// Operations returns the history so far in the order of IDs. Operations that
// have not ended are in it with the outcome Unknown and end now.
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

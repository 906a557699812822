package history

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// maxWatched is how many queues are counted between two calls of TakeWatched. Further queues are not counted.
const maxWatched = 10_000

// gather moves the counts of the shards to pending, and adds them to totals. The caller holds gathering.
func (r *Recorder) gather() {
	fresh := map[string]*Counts{}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		taken := s.keys
		s.keys = nil
		s.mu.Unlock()
		for key, t := range taken {
			addTo(r.pending, key, t)
			sum := fresh[key.Queue]
			if sum == nil {
				sum = &Counts{}
				fresh[key.Queue] = sum
			}
			sum.Add(&t.Counts)
		}
	}
	r.addTotals(fresh)
	limit(r.pending, maxKeys, nil)
}

// addTotals adds fresh counts to the totals of their queues. While fewer than maxTotals queues have totals, further
// queues get totals, the busiest first. A queue never loses its totals, so no total decreases.
func (r *Recorder) addTotals(fresh map[string]*Counts) {
	names := slices.SortedFunc(maps.Keys(fresh), func(a, b string) int {
		return cmp.Or(cmp.Compare(fresh[b].Messages(), fresh[a].Messages()), cmp.Compare(a, b))
	})
	for _, name := range names {
		into := name
		if r.totals[name] == nil && len(r.totals) >= r.maxTotals {
			into = Other
		}
		if r.totals[into] == nil {
			r.totals[into] = &Counts{}
		}
		r.totals[into].Add(fresh[name])
	}
}

// Totals returns the counts of this instance since its start, by queue. It sums the queues beyond maxTotals as
// Other.
func (r *Recorder) Totals() map[string]Counts {
	r.gathering.Lock()
	defer r.gathering.Unlock()
	r.gather()
	found := make(map[string]Counts, len(r.totals))
	for name, sum := range r.totals {
		found[name] = *sum
	}
	return found
}

// DatabaseErrors returns how many requests have failed because of the database since the start of the instance.
func (r *Recorder) DatabaseErrors() int64 { return r.dbErrors.Load() }

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group))
}

func addTo(into map[Key]*tally, key Key, t *tally) {
	if have := into[key]; have != nil {
		have.add(t)
		return
	}
	into[key] = t
}

// limit sums the least busy keys as Other if all has more than most keys. It never sums a key of keep.
func limit(all map[Key]*tally, most int, keep map[Key]int64) {
	if len(all) <= most {
		return
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b Key) int {
		return cmp.Or(cmp.Compare(all[b].Messages(), all[a].Messages()), compareKeys(a, b))
	})
	for _, key := range keys[max(0, most-1-len(keep)):] {
		if _, kept := keep[key]; kept || key.Queue == Other {
			continue
		}
		t := all[key]
		delete(all, key)
		addTo(all, Key{Queue: Other}, t)
	}
}

// watched holds the counts of each queue since the last TakeWatched.
type watched struct {
	// onCount is nil except between Watch and Unwatch.
	onCount atomic.Pointer[func()]

	mu     sync.Mutex
	queues map[string]*tally
}

func (w *watched) change(name string, change func(t *tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.queues[name]
	if t == nil {
		if len(w.queues) >= maxWatched {
			return
		}
		if w.queues == nil {
			w.queues = map[string]*tally{}
		}
		t = &tally{}
		w.queues[name] = t
	}
	change(t)
}

// Watch starts counting each queue for TakeWatched. The Recorder calls onCount after each count. onCount must not
// block.
func (r *Recorder) Watch(onCount func()) {
	r.TakeWatched()
	r.watched.onCount.Store(&onCount)
}

// Unwatch stops the counting that Watch started.
func (r *Recorder) Unwatch() { r.watched.onCount.Store(nil) }

// TakeWatched returns the counts of each queue since the last call, or since Watch. It omits counts of an unknown
// queue.
func (r *Recorder) TakeWatched() map[string]Counts {
	r.watched.mu.Lock()
	defer r.watched.mu.Unlock()
	taken := make(map[string]Counts, len(r.watched.queues))
	for name, t := range r.watched.queues {
		taken[name] = t.Counts
	}
	r.watched.queues = nil
	return taken
}

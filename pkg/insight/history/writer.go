package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlWrite = sql.Query("insight/history/write")

const (
	// maxRows is how many keys have a row in one minute at most.
	maxRows = 250
	// When there are maxUnwritten unwritten rows, the Writer makes no more rows. The counts then stay in the Recorder,
	// and one later row has the counts of several minutes.
	maxUnwritten = 10 * maxRows
	// parkedInterval is the time after which the Writer writes an unchanged number of waiting requests again.
	parkedInterval = time.Hour
	// maxParked is how many keys with waiting requests have a row. The Writer sums the others as Other.
	maxParked = maxRows / 2
	// The Writer counts the waiting requests twice: sampleInterval before the end of a minute, and at its end. It uses
	// the greater number, because a client that waits in a loop is missing for a moment between two requests.
	sampleInterval = time.Second
	// clockSlack is added to the clock before the Writer computes the minute, because a timer can fire a little early.
	clockSlack = 100 * time.Millisecond
	// lastTimeout bounds the write when the server stops.
	lastTimeout = 5 * time.Second
)

// Instance describes this process.
type Instance struct {
	ID       string `json:"instance"` // a UUID
	Hostname string `json:"hostname"`
	Port     int    `json:"port"`
	PID      int    `json:"pid"`
}

// Sources are functions that a Writer calls at the end of a minute. Only Backlog queries the database.
type Sources struct {
	Instance Instance
	// Parked returns the number of waiting requests by queue and group.
	Parked func() map[Key]int64
	// Pool returns the numbers of connections of the pool.
	Pool func() (size, idle, active int64)
	// Backlog counts the backlogs of all queues and groups after the call. It may query the database and block until ctx ends.
	// It may be nil.
	Backlog func(ctx context.Context) (*Backlogs, error)
	// The Writer calls Written after it has written rows. Written must not block, and may be nil.
	Written func()
}

// row is a row of belfry.history.
type row struct {
	At       time.Time `json:"at"`
	Minutes  int       `json:"minutes"`
	Instance string    `json:"instance"`
	Queue    string    `json:"queue"`
	Group    string    `json:"consumer_group"`
	Counts
	Latency []int64 `json:"latency"`
	Parked  *int64  `json:"parked"`
	countedDepth
}

// instanceRow is a row of belfry.history_instance.
type instanceRow struct {
	At      time.Time `json:"at"`
	Minutes int       `json:"minutes"`
	Instance
	Figures
	DBErrors int64 `json:"db_errors"`
}

// Writer writes the counts of a Recorder once a minute. Unwritten is safe for concurrent use. Run calls the
// other methods.
type Writer struct {
	counts  *Recorder
	sources Sources
	log     *zap.Logger
	// write runs the statement.
	write func(ctx context.Context, queues, instances string) error
	// written reads the backlogs in the rows since an instant.
	written func(ctx context.Context, since time.Time) ([]backlogRow, error)

	mu      sync.Mutex // guards the fields below
	process sampler
	// minute is the current minute. The pending counts belong to it. last is the minute of the latest rows.
	minute, last time.Time
	// parked has the latest numbers of waiting requests in rows. parkedAt is the last minute with all these numbers.
	parked   map[Key]int64
	parkedAt time.Time
	dbErrors int64
	backlog  backlogState
	// unwritten are rows whose statement failed or has not ended.
	unwritten          []row
	unwrittenInstances []instanceRow
}

// NewWriter returns a Writer that uses pool. The caller must call Run.
func NewWriter(pool *postgres.Pool, counts *Recorder, sources Sources, log *zap.Logger) *Writer {
	return &Writer{
		counts: counts, sources: sources, log: log, parked: map[Key]int64{}, backlog: backlogState{known: map[Key]countedDepth{}}, minute: time.Now().UTC().Truncate(time.Minute),
		write: func(ctx context.Context, queues, instances string) error {
			ctx, cancel := pool.Bounded(ctx)
			defer cancel()
			_, err := pool.Exec(ctx, sqlWrite, queues, instances)
			return postgres.Wrapf(err, "writing the history")
		},
		written: func(ctx context.Context, since time.Time) ([]backlogRow, error) { return readWritten(ctx, pool, since) },
	}
}

// Run writes at the end of each minute, and once more when ctx ends. It returns nil.
func (w *Writer) Run(ctx context.Context) error {
	for first := true; ; first = false {
		now := time.Now()
		end := w.begin(now, first).Add(time.Minute)
		var before map[Key]int64
		if wait(ctx, end.Sub(now)-sampleInterval) {
			before = w.sources.Parked()
		}
		if !wait(ctx, time.Until(end)) {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
			defer cancel()
			w.flush(last, nil, false)
			return nil
		}
		w.flush(ctx, before, true)
	}
}

// begin sets the current minute to the minute of now, and returns it. If first is true, begin also takes the first sample
// of the process.
func (w *Writer) begin(now time.Time, first bool) (minute time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first {
		w.process.sample(now, w.sources.Pool)
	}
	return w.beginLocked(now)
}

func (w *Writer) beginLocked(now time.Time) (minute time.Time) {
	minute = now.Add(clockSlack).UTC().Truncate(time.Minute)
	if w.minute = minute; !minute.After(w.last) {
		w.minute = w.last.Add(time.Minute) // the clock was set back, or the server stops within the minute
	}
	return minute
}

// wait blocks for d, and returns false if ctx ended before that.
func wait(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// flush writes the counts of the current minute. before is an earlier count of the waiting requests. If backlog is true, flush
// counts the backlogs too, after a busy minute. flush logs a failure.
func (w *Writer) flush(ctx context.Context, before map[Key]int64, backlog bool) {
	if w.collect(before) && backlog {
		w.countBacklog(ctx)
	}
	queues, instances, err := w.encoded()
	if err == nil && instances != "" {
		err = w.write(ctx, queues, instances)
	}
	w.mu.Lock()
	rows := len(w.unwritten)
	if err == nil {
		w.unwritten, w.unwrittenInstances = nil, nil
	}
	w.mu.Unlock()
	switch {
	case err != nil:
		w.log.Warn("the history could not be written; the server tries again in a minute", zap.Int("rows", rows), zap.Error(err))
	case instances != "" && w.sources.Written != nil:
		w.sources.Written()
	}
}

// collect appends the rows of the current minute to the unwritten rows, and returns true, if the minute was busy. Later counts
// belong to the next minute.
func (w *Writer) collect(before map[Key]int64) (busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if len(w.unwritten) < maxUnwritten {
		taken, worthwhile := w.counts.take()
		if m := w.rowsLocked(taken, worthwhile, before, now, maxRows); m.busy {
			busy = true
			w.unwritten, w.unwrittenInstances = append(w.unwritten, m.rows...), append(w.unwrittenInstances, m.instance)
			w.last, w.dbErrors = w.minute, w.dbErrors+m.instance.DBErrors
			maps.Copy(w.parked, m.changed)
			maps.DeleteFunc(w.parked, func(_ Key, n int64) bool { return n == 0 })
			if m.allParked {
				w.parkedAt = w.minute
			}
		} else {
			w.counts.putBack(taken)
		}
	}
	w.beginLocked(now)
	w.process.sample(now, w.sources.Pool)
	return busy
}

// encoded returns all unwritten rows in JSON, or empty texts if there are none.
func (w *Writer) encoded() (queues, instances string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unwrittenInstances) == 0 {
		return "", "", nil
	}
	if queues, err = marshal(w.unwritten); err == nil {
		instances, err = marshal(w.unwrittenInstances)
	}
	return queues, instances, err
}

// minuteRows are the rows of one minute. If the minute was not busy, there is only the row of the instance.
type minuteRows struct {
	busy     bool
	rows     []row
	instance instanceRow
	// changed are the numbers of waiting requests in the rows. allParked is true if no number was left out as unchanged.
	changed   map[Key]int64
	allParked bool
}

// rowsLocked returns up to most rows for the current minute. It makes them of counts, and may change counts.
func (w *Writer) rowsLocked(counts map[Key]*tally, worthwhile bool, before map[Key]int64, now time.Time, most int) *minuteRows {
	m := &minuteRows{}
	errors := w.counts.DatabaseErrors() - w.dbErrors
	m.changed, m.allParked = w.changedParkedLocked(counts, before)
	process := w.process // a copy, because peeking must not start a new sample
	m.instance = instanceRow{At: w.minute, Minutes: 1, Instance: w.sources.Instance, Figures: process.sample(now, w.sources.Pool), DBErrors: errors}
	if m.busy = worthwhile || len(m.changed) > 0 || errors > 0 || w.backlogDueLocked(); !m.busy {
		return m
	}
	for key := range m.changed {
		addTo(counts, key, &tally{})
	}
	limit(counts, most, m.changed)
	for key, t := range counts {
		counted := row{At: w.minute, Minutes: 1, Instance: w.sources.Instance.ID, Queue: key.Queue, Group: key.Group, Counts: t.Counts, Latency: t.latency.elements()}
		if n, known := m.changed[key]; known {
			counted.Parked = &n
		}
		m.rows = append(m.rows, counted)
	}
	return m
}

// changedParkedLocked returns the numbers of waiting requests for the rows of the minute. all is true if the rows must
// have all numbers, because parkedInterval has passed.
func (w *Writer) changedParkedLocked(taken map[Key]*tally, before map[Key]int64) (changed map[Key]int64, all bool) {
	now := parkedNow(w.sources.Parked(), before)
	changed, all = map[Key]int64{}, w.minute.Sub(w.parkedAt) >= parkedInterval
	for key, n := range now {
		was := w.parked[key]
		if t := taken[key]; all || t != nil && t.busy && n != was || was == 0 || 10*max(n-was, was-n) > was {
			changed[key] = n
		}
	}
	for key := range w.parked {
		if _, waits := now[key]; !waits {
			changed[key] = 0
		}
	}
	return changed, all
}

// parkedNow returns the greater of two counts for each key. It sums the keys with the fewest waiting requests as Other,
// if there are more than maxParked keys.
func parkedNow(counts, before map[Key]int64) map[Key]int64 {
	for key, n := range before {
		counts[key] = max(counts[key], n)
	}
	if len(counts) <= maxParked {
		return counts
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b Key) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), compareKeys(a, b)) })
	for _, key := range keys[maxParked-1:] {
		n := counts[key]
		delete(counts, key)
		counts[Key{Queue: Other}] += n
	}
	return counts
}

// take returns and removes the pending counts. worthwhile is true if a key is busy.
func (r *Recorder) take() (taken map[Key]*tally, worthwhile bool) {
	r.gathering.Lock()
	defer r.gathering.Unlock()
	r.gather()
	taken, r.pending = r.pending, map[Key]*tally{}
	return taken, worthRows(taken)
}

// peek returns a copy of the pending counts. worthwhile is true if a key is busy.
func (r *Recorder) peek() (pending map[Key]*tally, worthwhile bool) {
	r.gathering.Lock()
	defer r.gathering.Unlock()
	r.gather()
	pending = make(map[Key]*tally, len(r.pending))
	for key, t := range r.pending {
		copied := *t
		pending[key] = &copied
	}
	return pending, worthRows(pending)
}

func worthRows(counts map[Key]*tally) bool {
	for _, t := range counts {
		if t.busy {
			return true
		}
	}
	return false
}

// putBack makes counts pending again.
func (r *Recorder) putBack(taken map[Key]*tally) {
	r.gathering.Lock()
	defer r.gathering.Unlock()
	for key, t := range taken {
		addTo(r.pending, key, t)
	}
}

package history

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlWrite = sql.Query("history/write")

const (
	// maxRows is how many keys have a row in one minute.
	maxRows = 250
	// maxUnwritten is how many rows are kept for the next statement. Then the counts stay in memory, and
	// become one row for several minutes.
	maxUnwritten = 10 * maxRows
	// parkedInterval is how often the number of waiting requests is written, although it did not change.
	parkedInterval = time.Hour
	// maxParked is how many keys with waiting requests have a row. The others are summed as Other.
	maxParked = maxRows / 2
	// sampleInterval is how long before the end of a minute the waiting requests are counted for the first
	// of two times. A client sends its next request at once, so the greater number is the true one.
	sampleInterval = time.Second
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

// Sources are what a Writer asks at the end of a minute. They do not ask the database.
type Sources struct {
	Instance Instance
	// Parked returns how many requests wait, by queue and group.
	Parked func() map[Key]int64
	// Pool returns the connections of the pool.
	Pool func() (size, idle, active int64)
	// Written is called after rows were written. It must not block, and may be nil.
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
}

// instanceRow is a row of belfry.history_instance.
type instanceRow struct {
	At      time.Time `json:"at"`
	Minutes int       `json:"minutes"`
	Instance
	Figures
	DBErrors int64 `json:"db_errors"`
}

// Writer writes the counts of a Recorder once a minute. Run calls its methods.
type Writer struct {
	counts  *Recorder
	sources Sources
	log     *zap.Logger
	process sampler
	// write runs the statement.
	write func(ctx context.Context, queues, instances []byte) error

	// last is the minute of the latest rows.
	last time.Time
	// parked is what the rows say of waiting requests, and parkedAt when all of it was last written.
	parked   map[Key]int64
	parkedAt time.Time
	dbErrors int64
	// unwritten are rows whose statement failed.
	unwritten          []row
	unwrittenInstances []instanceRow
}

// NewWriter returns a Writer on pool. Run it.
func NewWriter(pool *postgres.Pool, counts *Recorder, sources Sources, log *zap.Logger) *Writer {
	return &Writer{
		counts: counts, sources: sources, log: log, parked: map[Key]int64{},
		write: func(ctx context.Context, queues, instances []byte) error {
			ctx, cancel := pool.Bounded(ctx)
			defer cancel()
			_, err := pool.Exec(ctx, sqlWrite, string(queues), string(instances))
			return postgres.Wrapf(err, "writing the history")
		},
	}
}

// Run writes at the end of each minute, and once more when ctx ends. It returns nil.
func (w *Writer) Run(ctx context.Context) error {
	w.process.sample(time.Now(), w.sources.Pool) // the begin of the first minute
	for {
		now := time.Now()
		end := now.Truncate(time.Minute).Add(time.Minute)
		var before map[Key]int64
		if wait(ctx, end.Sub(now)-sampleInterval) {
			before = w.sources.Parked()
		}
		if !wait(ctx, time.Until(end)) {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
			defer cancel()
			w.flush(last, time.Now().Add(time.Minute/2), nil) // the minute that has begun
			return nil
		}
		w.flush(ctx, time.Now(), before)
	}
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

// flush writes what was counted in the minute that ended about now. before is an earlier count of the waiting
// requests. A failure is logged.
func (w *Writer) flush(ctx context.Context, now time.Time, before map[Key]int64) {
	minute := now.Add(-time.Minute / 2).Truncate(time.Minute)
	if !minute.After(w.last) {
		minute = w.last.Add(time.Minute) // the clock was set back
	}
	figures := w.process.sample(now, w.sources.Pool)
	if len(w.unwritten) < maxUnwritten {
		w.collect(minute.UTC(), figures, before)
	}
	if len(w.unwrittenInstances) == 0 {
		return
	}
	queues, err := json.Marshal(w.unwritten)
	if err == nil {
		var instances []byte
		if instances, err = json.Marshal(w.unwrittenInstances); err == nil {
			err = w.write(ctx, queues, instances)
		}
	}
	if err != nil {
		w.log.Warn("The history could not be written. It will be written in a minute.", zap.Int("rows", len(w.unwritten)), zap.Error(err))
		return
	}
	w.unwritten, w.unwrittenInstances = nil, nil
	if w.sources.Written != nil {
		w.sources.Written()
	}
}

// collect appends the rows of a minute to the unwritten ones, if something happened in it.
func (w *Writer) collect(minute time.Time, figures Figures, before map[Key]int64) {
	taken, worthwhile := w.counts.take()
	errors := w.counts.DatabaseErrors()
	changed := w.changedParked(minute, taken, before)
	if !worthwhile && len(changed) == 0 && errors == w.dbErrors {
		w.counts.putBack(taken)
		return
	}
	for key := range changed {
		addTo(taken, key, &tally{})
	}
	limit(taken, maxRows, changed)
	rows := make([]row, 0, len(taken))
	for key, t := range taken {
		one := row{At: minute, Minutes: 1, Instance: w.sources.Instance.ID, Queue: key.Queue, Group: key.Group, Counts: t.Counts, Latency: t.latency.elements()}
		if n, known := changed[key]; known {
			one.Parked = &n
		}
		rows = append(rows, one)
	}
	w.unwritten = append(w.unwritten, rows...)
	w.unwrittenInstances = append(w.unwrittenInstances, instanceRow{
		At: minute, Minutes: 1, Instance: w.sources.Instance, Figures: figures, DBErrors: errors - w.dbErrors,
	})
	w.last, w.dbErrors = minute, errors
	maps.Copy(w.parked, changed)
	maps.DeleteFunc(w.parked, func(_ Key, n int64) bool { return n == 0 })
}

// changedParked returns the numbers of waiting requests that rows must say.
func (w *Writer) changedParked(minute time.Time, taken map[Key]*tally, before map[Key]int64) map[Key]int64 {
	now, changed := parkedNow(w.sources.Parked(), before), map[Key]int64{}
	all := minute.Sub(w.parkedAt) >= parkedInterval
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
	if all {
		w.parkedAt = minute
	}
	return changed
}

// parkedNow returns the greater of two counts for each key, of the keys with the most waiting requests.
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

// take returns the pending counts, and whether they are worth rows.
func (r *Recorder) take() (taken map[Key]*tally, worthwhile bool) {
	r.gathering.Lock()
	defer r.gathering.Unlock()
	r.gather()
	taken, r.pending = r.pending, map[Key]*tally{}
	for _, t := range taken {
		worthwhile = worthwhile || t.busy
	}
	return taken, worthwhile
}

// putBack makes counts pending again.
func (r *Recorder) putBack(taken map[Key]*tally) {
	r.gathering.Lock()
	defer r.gathering.Unlock()
	for key, t := range taken {
		addTo(r.pending, key, t)
	}
}

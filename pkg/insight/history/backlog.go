package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

const (
	// maxBacklogs is how many pairs of a minute have a row only because of their backlog.
	maxBacklogs = maxRows / 2
	// backlogTimeout bounds a count. It is less than a minute.
	backlogTimeout = 30 * time.Second
	// After a count the Writer counts no backlog for backlogRest times the duration of the count.
	backlogRest = 20
	// writtenSlack is how long before the last count the Writer reads the rows of other instances again. A row
	// can be written some minutes after its minute.
	writtenSlack = 10 * time.Minute
	// A count after the end of a bucket belongs to the bucket if it began within countSlack.
	countSlack = 10 * time.Second
	// maxBacklogRows bounds the counts that one answer reads.
	maxBacklogRows = 200_000
)

// Backlogs are the backlogs of all queues and groups at one instant.
type Backlogs struct {
	At time.Time
	// Took is how long the count took.
	Took time.Duration
	// Depths has no empty backlogs. The key of a queue has no group.
	Depths map[Key]Depth
}

// Depth is a backlog: the number of unfinished messages, and when the oldest of them was stored.
type Depth struct {
	Messages int64
	Oldest   time.Time
}

// countedDepth is a backlog in a row. A row without one has no values.
type countedDepth struct {
	Depth     *int64     `json:"depth"`
	OldestAt  *time.Time `json:"oldest_at"`
	CountedAt *time.Time `json:"counted_at"`
}

// countedAt returns the values of a row.
func countedAt(at time.Time, d Depth) countedDepth {
	c := countedDepth{Depth: &d.Messages, CountedAt: &at}
	if d.Messages > 0 {
		c.OldestAt = &d.Oldest
	}
	return c
}

// depth returns the backlog. It is empty without values.
func (c *countedDepth) depth() (d Depth) {
	if c.Depth != nil {
		d.Messages = *c.Depth
	}
	if c.OldestAt != nil {
		d.Oldest = *c.OldestAt
	}
	return d
}

// backlogState is what a Writer knows of the written backlogs. Writer.mu guards it.
type backlogState struct {
	// known has the newest written backlog of each pair, without empty ones.
	known map[Key]countedDepth
	// since is the minute from which on rows may be unknown. It is zero before the first count.
	since time.Time
	// due is true if a busy minute had no count: the count failed, or the rest was not over.
	due bool
	// next is when the rest after the last count ends.
	next time.Time
}

// backlogDueLocked reports whether the minute needs rows only because the count of an earlier minute is missing. While the rows
// of many minutes are unwritten, it returns false, so that their number is bounded.
func (w *Writer) backlogDueLocked() bool {
	return w.backlog.due && !time.Now().Before(w.backlog.next) && len(w.unwrittenInstances) < maxSentInstances
}

// countBacklog counts the backlogs, and adds the changed ones to the rows of the last minute. It logs a failure.
func (w *Writer) countBacklog(ctx context.Context) {
	if w.sources.Backlog == nil {
		return
	}
	w.mu.Lock()
	w.backlog.due = true
	resting, since, minute := time.Now().Before(w.backlog.next), w.backlog.since, w.last
	w.mu.Unlock()
	if resting {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	now, err := w.sources.Backlog(ctx)
	var written []backlogRow
	if err == nil {
		written, err = w.written(ctx, since)
	}
	if err != nil {
		w.log.Warn("the backlogs could not be counted for the history; the server tries again in a minute", zap.Error(err))
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backlog.learn(written)
	w.addBacklogLocked(now, minute)
	w.backlog.since, w.backlog.due, w.backlog.next = minute.Add(-writtenSlack), false, time.Now().Add(backlogRest*now.Took)
}

// learn takes the backlogs that any instance has written.
func (b *backlogState) learn(written []backlogRow) {
	for i := range written {
		row := &written[i]
		key := Key{row.Queue, row.ConsumerGroup}
		if have := b.known[key]; have.CountedAt == nil || have.CountedAt.Before(row.CountedAt) {
			b.set(key, countedAt(row.CountedAt, row.depth()))
		}
	}
}

// set stores the newest written backlog of a pair.
func (b *backlogState) set(key Key, c countedDepth) {
	if *c.Depth == 0 {
		delete(b.known, key)
		return
	}
	b.known[key] = c
}

// addBacklogLocked adds the backlogs that differ from the written ones to the rows of a minute. Up to maxBacklogs pairs without
// a row get one.
func (w *Writer) addBacklogLocked(now *Backlogs, minute time.Time) {
	changed := w.backlog.changed(now)
	// Readers may use the rows without the lock, so the Writer changes a copy.
	w.unwritten = slices.Clone(w.unwritten)
	add := func(r *row, key Key) {
		r.countedDepth = countedAt(now.At, now.Depths[key])
		w.backlog.set(key, r.countedDepth)
		delete(changed, key)
	}
	for i := range w.unwritten {
		r := &w.unwritten[i]
		if _, is := changed[Key{r.Queue, r.Group}]; is && r.At.Equal(minute) {
			add(r, Key{r.Queue, r.Group})
		}
	}
	most := slices.SortedFunc(maps.Keys(changed), func(a, b Key) int {
		return cmp.Or(cmp.Compare(changed[b], changed[a]), compareKeys(a, b))
	})
	for _, key := range most[:min(maxBacklogs, len(most))] {
		r := row{At: minute, Minutes: 1, Instance: w.sources.Instance.ID, Queue: key.Queue, Group: key.Group, Latency: []int64{}}
		add(&r, key)
		w.unwritten = append(w.unwritten, r)
	}
}

// changed returns the pairs whose backlog differs from the written one, and by how many messages.
func (b *backlogState) changed(now *Backlogs) map[Key]int64 {
	found := map[Key]int64{}
	for key, d := range now.Depths {
		known := b.known[key]
		if was := known.depth(); was.Messages != d.Messages || !was.Oldest.Equal(d.Oldest) {
			found[key] = max(was.Messages-d.Messages, d.Messages-was.Messages)
		}
	}
	for key, known := range b.known {
		if _, is := now.Depths[key]; !is {
			found[key] = *known.Depth
		}
	}
	return found
}

// backlogRow is a written backlog.
type backlogRow struct {
	Queue, ConsumerGroup string
	Messages             int64 `db:"depth"`
	OldestAt             *time.Time
	CountedAt            time.Time
}

func (r *backlogRow) depth() Depth {
	d := Depth{Messages: r.Messages}
	if r.OldestAt != nil {
		d.Oldest = *r.OldestAt
	}
	return d
}

// readWritten returns the newest backlog of each pair in the rows since an instant. The zero time reads all rows.
func readWritten(ctx context.Context, pool *postgres.Pool, since time.Time) ([]backlogRow, error) {
	found, err := postgres.Collect(ctx, pool, sqlWritten, pgx.RowToStructByName[backlogRow], since)
	return found, postgres.Wrapf(err, "reading the backlogs of the history")
}

// BacklogAt is the backlog of a queue or a group at the end of a bucket.
type BacklogAt struct {
	At    time.Time
	Queue string
	Depth
	// CountedAt is when it was counted. It did not change after that until the end of the bucket, as far as Belfry knows.
	CountedAt time.Time
}

// Age returns how old the oldest message was at an instant. It is 0 without a message.
func (b *BacklogAt) Age(at time.Time) time.Duration {
	if b.Messages == 0 {
		return 0
	}
	return max(0, at.Sub(b.Oldest))
}

// Backlog returns the backlogs of queues, or of the group of f in these queues, in each bucket of span since the first count,
// the newest bucket first. It ignores the namespace and the task of f. Errors: CodeUnavailable.
func (r *Reader) Backlog(ctx context.Context, span Range, queues []string, f Filter) ([]BacklogAt, error) {
	group := ""
	if f.Group != nil {
		group = *f.Group
	}
	rows, err := postgres.Collect(ctx, r.pool, sqlBacklog, func(row pgx.CollectableRow) (b backlogRow, err error) {
		err = row.Scan(&b.Queue, &b.Messages, &b.OldestAt, &b.CountedAt)
		return b, err
	}, queues, group, span.From, span.To.Add(countSlack), postgres.LikePatterns(f.Allowed), int64(maxBacklogRows))
	if err != nil {
		return nil, postgres.Wrapf(err, "reading the backlogs of the history")
	}
	return fillBacklog(span, rows), nil
}

// fillBacklog returns the backlog of each queue at the end of each bucket. The rows are in order, the newest first.
func fillBacklog(span Range, rows []backlogRow) (found []BacklogAt) {
	now := map[string]*backlogRow{}
	for at := span.From; at.Before(span.To); at = at.Add(span.Bucket) {
		end := at.Add(span.Bucket)
		for len(rows) > 0 && !rows[len(rows)-1].CountedAt.After(end.Add(countSlack)) {
			now[rows[len(rows)-1].Queue] = &rows[len(rows)-1]
			rows = rows[:len(rows)-1]
		}
		for _, name := range slices.Sorted(maps.Keys(now)) {
			found = append(found, BacklogAt{At: at, Queue: name, Depth: now[name].depth(), CountedAt: now[name].CountedAt})
		}
	}
	slices.SortStableFunc(found, func(a, b BacklogAt) int { return b.At.Compare(a.At) })
	return found
}

// WithBacklog adds the missing buckets of the queues with a backlog.
func WithBacklog(found []Bucket, backlogs []BacklogAt) []Bucket {
	known := map[At]bool{}
	for i := range found {
		known[At{Unix: found[i].At.Unix(), Queue: found[i].Queue}] = true
	}
	for i := range backlogs {
		b := &backlogs[i]
		if at := (At{Unix: b.At.Unix(), Queue: b.Queue}); !known[at] && b.Messages > 0 {
			known[at] = true
			found = append(found, Bucket{At: b.At, Queue: b.Queue})
		}
	}
	slices.SortStableFunc(found, func(a, b Bucket) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Queue, b.Queue)) })
	return found
}

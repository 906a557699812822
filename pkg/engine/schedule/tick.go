package schedule

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/tracing"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// batchRows is how many schedules one statement reads.
	batchRows = 1000
	// batchMessages and batchBytes bound one statement that stores messages. The messages of one schedule are not divided.
	batchMessages = 250
	batchBytes    = 4 << 20
	// batchesAtOnce is how many such statements run at the same time, because one statement uses one processor of the database.
	batchesAtOnce = 2
	// maxRules is how many rules a Runner remembers.
	maxRules = 10_000
	// floorMargin is how far the floor of a read is behind the clock. It is longer than the delay of an instance.
	floorMargin = 10 * time.Second
)

var (
	sqlDue  = sql.Query("engine/schedule/due")
	sqlTick = sql.Query("engine/schedule/tick")
)

// rules remembers parsed rules, because many schedules have the same instants and each has many of them.
type rules map[when.Spec]*when.Rule

func (r *rules) parse(spec when.Spec) (*when.Rule, error) {
	if rule := (*r)[spec]; rule != nil {
		return rule, nil
	}
	rule, err := when.Parse(spec)
	if err != nil {
		return nil, err
	}
	if *r == nil || len(*r) >= maxRules {
		*r = rules{}
	}
	(*r)[spec] = rule
	return rule, nil
}

// found is what read finds.
type found struct {
	// now is the clock of the database at readAt, less the delay of this instance.
	now, readAt time.Time
	// delay is the delay of this instance.
	delay time.Duration
	// following is the next instant after now. Zero means that no instant follows.
	following time.Time
	rows      []*row
}

// clock returns what now is at this moment.
func (f *found) clock() time.Time { return f.now.Add(time.Since(f.readAt)) }

// read reads the schedules that have been due for at least delay.
func (r *Runner) read(ctx context.Context, delay time.Duration) (found, error) {
	f := found{delay: delay}
	shift := r.clockStep.Load() - delay.Microseconds()
	_, err := postgres.Collect(ctx, r.Pool, sqlDue, func(from pgx.CollectableRow) (struct{}, error) {
		one, err := f.scan(from)
		if one.id != 0 {
			f.rows = append(f.rows, one)
		}
		return struct{}{}, err
	}, int64(batchRows), shift, zeronull.Timestamptz(r.floor))
	f.readAt = time.Now()
	if err == nil && r.floor.IsZero() {
		r.fullAt = f.readAt
	}
	return f, postgres.Wrapf(err, "reading the schedules that are due")
}

func (f *found) scan(from pgx.CollectableRow) (*row, error) {
	var one row
	var every, jitter int64
	err := from.Scan(&f.now, (*zeronull.Timestamptz)(&f.following), (*zeronull.Int8)(&one.id), (*zeronull.Text)(&one.name),
		(*zeronull.Text)(&one.spec.Cron), (*zeronull.Int8)(&every), (*zeronull.Timestamptz)(&one.spec.At), (*zeronull.Text)(&one.spec.Zone),
		(*zeronull.Timestamptz)(&one.spec.Starts), (*zeronull.Timestamptz)(&one.spec.Ends), (*zeronull.Int8)(&jitter),
		(*zeronull.Text)(&one.missed), (*zeronull.Text)(&one.overlapGroup), (*zeronull.Text)(&one.payload), &one.headers,
		(*zeronull.Timestamptz)(&one.handledTo), (*zeronull.Timestamptz)(&one.changedAt), (*zeronull.Text)(&one.queue), &one.busy)
	one.spec.Every, one.jitter = time.Duration(every)*time.Second, time.Duration(jitter)*time.Microsecond
	return &one, err
}

// planned is a schedule with its outcome.
type planned struct {
	*row
	outcome
}

// arguments are the arguments of one statement that stores messages. They have one element for each message, and for each
// schedule without a message.
type arguments struct {
	ids                               []int64
	readTo, changedAt, handledTo      []time.Time
	next, due, last                   []*time.Time
	lastID, problem                   []*string
	transactionIDs, payloads, headers []*string
	// tracer makes the spans of the messages, by schedule. It may be nil.
	tracer *tracing.Tracer
	spans  map[int64][]*tracing.Publication
}

// given returns a pointer to a value, or nil for the zero value.
func given[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

func (a *arguments) add(p planned) {
	if len(p.instants) == 0 {
		a.addOne(p, time.Time{}, "")
		a.transactionIDs, a.payloads, a.headers = append(a.transactionIDs, nil), append(a.payloads, nil), append(a.headers, nil)
		return
	}
	last := p.instants[len(p.instants)-1]
	lastID := transactionID(p.name, last)
	for _, at := range p.instants {
		a.addOne(p, last, lastID)
		fill := filler(p.name, at)
		id, payload := transactionID(p.name, at), fill.Replace(p.payload)
		var headers queue.Headers
		if p.headers != nil {
			headers = queue.Headers(fill.Replace(*p.headers))
		}
		headers, span := a.tracer.Publish(context.Background(), p.name, p.queue, id, headers)
		if span != nil {
			a.spans[p.id] = append(a.spans[p.id], span)
		}
		a.transactionIDs, a.payloads, a.headers = append(a.transactionIDs, &id), append(a.payloads, &payload), append(a.headers, given(string(headers)))
	}
}

// addOne adds what is the same for all messages of a schedule. last is the last instant with a message, and lastID its transaction
// id.
func (a *arguments) addOne(p planned, last time.Time, lastID string) {
	a.ids = append(a.ids, p.id)
	a.readTo, a.changedAt, a.handledTo = append(a.readTo, p.row.handledTo), append(a.changedAt, p.changedAt), append(a.handledTo, p.outcome.handledTo)
	a.next, a.due, a.problem = append(a.next, given(p.next)), append(a.due, given(p.due)), append(a.problem, given(p.problem))
	a.last, a.lastID = append(a.last, given(last)), append(a.lastID, given(lastID))
}

// values are the parameters of the statement.
func (a *arguments) values() []any {
	return []any{
		a.ids, a.readTo, a.changedAt, a.handledTo, a.next, a.due, a.last, a.lastID, a.problem, a.transactionIDs, a.payloads, a.headers,
	}
}

// handle handles schedules that are due. It returns the next instant, and whether this instance has handled all of them.
func (r *Runner) handle(ctx context.Context, f *found) (following time.Time, all bool, err error) {
	following = f.following
	var incomplete atomic.Bool
	var sends errgroup.Group
	sends.SetLimit(batchesAtOnce)
	var batch []planned
	messages, bytes := 0, 0
	for i, one := range f.rows {
		p := planned{one, one.plan(f.now, r.rules.parse)}
		batch = append(batch, p)
		messages, bytes = messages+len(p.instants), bytes+len(p.instants)*len(p.payload)
		if !p.due.IsZero() && (following.IsZero() || p.due.Before(following)) {
			following = p.due
		}
		if i < len(f.rows)-1 && messages < batchMessages && bytes < batchBytes {
			continue
		}
		ready := batch
		sends.Go(func() error {
			complete, err := r.send(ctx, f, ready)
			if !complete {
				incomplete.Store(true)
			}
			return err
		})
		batch, messages, bytes = nil, 0, 0
	}
	err = sends.Wait()
	return following, !incomplete.Load(), err
}

// send stores the messages of schedules. It reports whether it has handled all of them. If the database refuses a value, send
// halves the batch until it has found the schedule, and records the error in its row.
func (r *Runner) send(ctx context.Context, f *found, batch []planned) (complete bool, err error) {
	r.beforeTick()
	a := arguments{tracer: r.Tracer, spans: map[int64][]*tracing.Publication{}}
	for _, p := range batch {
		a.add(p)
	}
	done, err := postgres.Collect(ctx, r.Pool, sqlTick, pgx.RowTo[int64], a.values()...)
	switch {
	case err == nil:
		for _, id := range done {
			for _, span := range a.spans[id] {
				span.Stored()
			}
		}
		r.count(f, batch, done)
		if r.Handled != nil && len(done) > 0 {
			r.Handled()
		}
		return len(done) == len(batch), nil
	case !refused(err):
		return false, postgres.Wrapf(err, "storing messages of schedules")
	case len(batch) == 1 && batch[0].problem != "":
		return false, postgres.Wrapf(err, "recording the error of schedule %q", batch[0].name)
	case len(batch) == 1:
		p := planned{batch[0].row, outcome{handledTo: batch[0].row.handledTo, problem: "the database refused the message: " + err.Error()}}
		return r.send(ctx, f, []planned{p})
	}
	middle := len(batch) / 2
	first, err := r.send(ctx, f, batch[:middle])
	if err != nil {
		return false, err
	}
	second, err := r.send(ctx, f, batch[middle:])
	return first && second, err
}

// refused reports whether an error is about a value, or was raised by a function of a trigger.
func refused(err error) bool {
	state := postgres.SQLState(err)
	return strings.HasPrefix(state, "22") || strings.HasPrefix(state, "23") || state == "P0001"
}

// count counts the schedules that a statement has handled.
func (r *Runner) count(f *found, batch []planned, done []int64) {
	handled := map[int64]bool{}
	for _, id := range done {
		handled[id] = true
	}
	now := f.clock().Add(f.delay)
	for _, p := range batch {
		if !handled[p.id] {
			continue
		}
		if p.problem != "" {
			r.Log.Warn("a schedule has no instants until it is changed", zap.String("schedule", p.name), zap.String("error", p.problem))
		}
		r.Metrics.messages.Add(float64(len(p.instants)))
		r.Metrics.skipped.Add(float64(p.skipped))
		for _, at := range p.instants {
			r.Metrics.lateness.Observe(max(0, now.Sub(p.dueAt(at)).Seconds()))
		}
	}
}

package explain

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlFacts, sqlSearch = sql.Query("insight/explain/facts"), sql.Query("insight/explain/search")

// maxSearched is how many partitions a search covers. Each partition costs one index lookup.
const maxSearched = 10_000

// Explainer answers Questions. It is safe for concurrent use.
type Explainer struct {
	pool      *postgres.Pool
	completed time.Duration
}

// New returns an Explainer that uses pool. completed is retention.completed: how long queues without retentionEnabled keep
// messages that every group has passed. 0 means for ever.
func New(pool *postgres.Pool, completed time.Duration) *Explainer {
	return &Explainer{pool: pool, completed: completed}
}

// Question names a partition and a group. If TransactionID is set, it also names a message. An empty Partition means
// queue.DefaultPartition if TransactionID is empty. Otherwise it means the first partition that has the message.
type Question struct{ Queue, Partition, Group, TransactionID string }

// Instance has the state of this instance, which the database does not know.
type Instance struct {
	// PushMaintenance and PopMaintenance say whether the maintenance mode is on.
	PushMaintenance, PopMaintenance bool
	// Waiting counts the pop requests that wait on this instance for the partition and the group. It includes requests
	// that select queues by namespace and task.
	Waiting func(partition, namespace, task string) int
}

// search is the result of looking for a message in all partitions of its queue.
type search struct {
	partitions int64    // at most maxSearched + 1
	found      []string // the names of the partitions that have the message
}

// Explain answers a question. Errors: CodeUnavailable.
func (e *Explainer) Explain(ctx context.Context, q Question, in Instance) (Answer, error) {
	var f facts
	var s *search
	if q.Partition == "" && q.TransactionID == "" {
		q.Partition = queue.DefaultPartition
	} else if q.Partition == "" {
		s = &search{}
		err := e.pool.ScanRow(ctx, []any{&s.partitions, &s.found}, sqlSearch, q.Queue, q.TransactionID, int64(maxSearched))
		if err != nil {
			return Answer{}, postgres.Wrapf(err, "searching the partitions of the queue %q", q.Queue)
		}
		if len(s.found) > 0 {
			q.Partition = s.found[0]
		}
	}
	err := e.pool.ScanRow(ctx, f.columns(), sqlFacts, q.Queue, q.Partition, q.Group, zeronull.Text(q.TransactionID), int64(e.completed.Seconds()))
	if err != nil {
		return Answer{}, postgres.Wrapf(err, "explaining queue %q", q.Queue)
	}
	if f.blocked {
		f.retryAt = time.Time{} // the value is only a mark
	}
	j := judge{Question: q, facts: &f, in: in, search: s}
	a := j.answer()
	return a, e.addSchedule(ctx, q, &a)
}

// message is a message of the log. If there is no message, seq is 0.
type message struct {
	seq                  int64
	transactionID        string
	createdAt, visibleAt time.Time
}

func (m *message) columns() []any {
	return []any{(*zeronull.Int8)(&m.seq), (*zeronull.Text)(&m.transactionID), (*zeronull.Timestamptz)(&m.createdAt), (*zeronull.Timestamptz)(&m.visibleAt)}
}

// facts is the row that sqlFacts returns. The file of the statement describes the columns. A field whose row does not
// exist is zero.
type facts struct {
	now                                                         time.Time
	queueExists, partitionExists, groupExists, cursorExists     bool
	namespace, task                                             string
	queuePaused, partitionPaused, groupPaused                   pgtype.Bool
	delay, expireAfter, maxDeliveries                           int64
	retention, completedRetention, maxWaitTime                  int64
	windowEnd, groupStart, startAt, readyAt, retryAt, leaseTill time.Time
	leaseEnd, attempts, failures, committed, expired, lag       int64
	front, head, second                                         message
	again                                                       message
	againRetry                                                  time.Time
	againFailures                                               int64
	message                                                     message
	headers                                                     string
	skipped                                                     pgtype.Bool
	deadAt                                                      time.Time
	deadError                                                   string
	redriven                                                    bool
	ownLease                                                    pgtype.Bool
	ownFailures, ownAttempts                                    int64
	ownRetry, redrivenAt, consumedAt                            time.Time
	// blocked: an operator must decide about head, which failed last at blockedAt.
	blocked     bool
	blockedAt   time.Time
	onExhausted string
}

// columns returns the scan targets for the columns of the statement.
func (f *facts) columns() []any {
	all := []any{
		&f.now, &f.queueExists, &f.partitionExists, &f.groupExists, &f.cursorExists, (*zeronull.Text)(&f.namespace), (*zeronull.Text)(&f.task),
		&f.queuePaused, &f.partitionPaused, &f.groupPaused,
	}
	for _, n := range []*int64{&f.delay, &f.expireAfter, &f.maxDeliveries, &f.retention, &f.completedRetention, &f.maxWaitTime} {
		all = append(all, (*zeronull.Int8)(n))
	}
	for _, at := range []*time.Time{&f.windowEnd, &f.groupStart, &f.startAt, &f.readyAt, &f.retryAt, &f.leaseTill} {
		all = append(all, (*zeronull.Timestamptz)(at))
	}
	for _, n := range []*int64{&f.leaseEnd, &f.attempts, &f.failures, &f.committed, &f.expired, &f.lag} {
		all = append(all, (*zeronull.Int8)(n))
	}
	for _, m := range []*message{&f.front, &f.head, &f.second} {
		all = append(all, m.columns()...)
	}
	all = append(all, (*zeronull.Int8)(&f.again.seq), (*zeronull.Text)(&f.again.transactionID), (*zeronull.Timestamptz)(&f.againRetry), (*zeronull.Int8)(&f.againFailures))
	all = append(all, f.message.columns()...)
	return append(all, &f.skipped, (*zeronull.Timestamptz)(&f.deadAt), (*zeronull.Text)(&f.deadError), &f.redriven, &f.ownLease,
		(*zeronull.Int8)(&f.ownFailures), (*zeronull.Int8)(&f.ownAttempts), (*zeronull.Timestamptz)(&f.ownRetry), (*zeronull.Timestamptz)(&f.redrivenAt),
		(*zeronull.Timestamptz)(&f.consumedAt), (*zeronull.Text)(&f.headers), &f.blocked, (*zeronull.Timestamptz)(&f.blockedAt), &f.onExhausted)
}

// visibleAt returns the earliest instant for the delivery of a message.
func (f *facts) visibleAt(m *message) time.Time {
	at := m.visibleAt
	if delayed := m.createdAt.Add(seconds(f.delay)); f.delay > 0 && delayed.After(at) {
		at = delayed
	}
	return at
}

// hasExpired reports whether a message of the log is older than expireAfterSeconds.
func (f *facts) hasExpired(m *message) bool {
	return f.expireAfter > 0 && m.seq > 0 && !m.createdAt.Add(seconds(f.expireAfter)).After(f.now)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

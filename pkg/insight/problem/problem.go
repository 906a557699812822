package problem

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlGroups    = sql.Query("insight/problem/groups")
	sqlHeads     = sql.Query("insight/problem/heads")
	sqlPaused    = sql.Query("insight/problem/paused")
	sqlCounts    = sql.Query("insight/problem/counts")
	sqlSchedules = sql.Query("insight/problem/schedules")
	sqlSnapshots = sql.Query("insight/doctor/snapshots")
)

// Kind is the kind of a Problem.
type Kind string

// The kinds, the most urgent first.
const (
	// HeldSnapshot is a transaction that has been open for 5 minutes. It prevents Postgres from removing old row versions.
	HeldSnapshot Kind = "held_snapshot"
	// ScheduleLate is a schedule that has been due for 10 seconds, and no instance has stored its message.
	ScheduleLate Kind = "schedule_late"
	// ScheduleError is a schedule that has no instants until it is changed. Problem.Error says why.
	ScheduleError Kind = "schedule_error"
	// Blocked is a partition that stops before a message without a retry left, until an operator decides.
	Blocked Kind = "blocked_partition"
	// StuckHead is a partition whose first message was delivered 3 times, or waits at least a minute for a retry.
	StuckHead Kind = "stuck_head"
	// Lag is a late group: Config.LateAfter says when.
	Lag             Kind = "lag"
	DeadLetters     Kind = "dead_letters"
	PausedQueue     Kind = "paused_queue"
	PausedGroup     Kind = "paused_group"
	PausedPartition Kind = "paused_partition"
)

var order = []Kind{HeldSnapshot, ScheduleLate, ScheduleError, Blocked, StuckHead, Lag, DeadLetters, PausedQueue, PausedGroup, PausedPartition}

const (
	// A message is stuck if it waits longer than stuckWait for a retry.
	stuckWait = time.Minute
	// A late group or a stuck head is urgent at the age of urgentAfter.
	urgentAfter = time.Hour
	// A message is stuck after stuckAfter deliveries.
	stuckAfter = 3
	// snapshotAfter is how long a transaction may be open before it is a HeldSnapshot.
	snapshotAfter = 5 * time.Minute
	// scheduleLate is how long a schedule may be due.
	scheduleLate = 10 * time.Second
	// schedulesExamined is how many late schedules, and how many schedules with an error, a request examines at most.
	schedulesExamined = 100
	// examined is how many groups, and how many paused queues, one request examines at most.
	examined = 500
	// MaxListed is how many problems one request lists at most. The next request continues after the last listed group.
	MaxListed = 1000
)

// Problem is one thing that is wrong.
type Problem struct {
	Kind   Kind
	Urgent bool
	// Queue, Group and Partition name the affected object. Group and Partition are empty if they do not apply to the kind.
	Queue, Group, Partition string
	// Age is the age of the oldest unfinished message that was examined, or of the transaction. It is zero if it is not known.
	Age time.Duration
	// Deliveries and Failures count for a stuck head. RetryIn is the time until its next delivery after a failure, or zero.
	Deliveries, Failures int64
	RetryIn              time.Duration
	// Messages counts what waits in Partition. Other kinds have no Messages: pkg/insight/totals counts groups and queues.
	Messages int64
	// Message is the transaction id of the message at which Partition is blocked.
	Message string
	// Schedule is the name of a schedule, and Error is its error. Age is how late a late schedule is.
	Schedule, Error string
	// Session describes the session or the prepared transaction of a held snapshot.
	Session string

	group, partition int64
}

// Position is where a request starts. The zero value is the beginning.
type Position struct {
	// Groups is true if earlier requests examined all paused queues. After is the id of the last examined queue or group.
	Groups bool
	After  int64
}

// Found are the problems of one request, the most urgent first.
type Found struct {
	Problems []Problem
	// Total counts the found problems. It is greater than the length of Problems if the request has reached its limit.
	Total int
	// Examined counts the examined groups and paused queues. Groups without ready or leased partitions, dead letters or
	// a pause are not examined.
	Examined int
	// Next is where the next request continues. It is nil if nothing is left to examine.
	Next *Position
}

// Finder finds problems. It is safe for concurrent use.
type Finder struct {
	pool *postgres.Pool
	cfg  Config
	// snapshotAge is snapshotAfter, except in tests.
	snapshotAge time.Duration
}

// New returns a Finder that uses pool.
func New(pool *postgres.Pool, cfg Config) *Finder { return &Finder{pool, cfg, snapshotAfter} }

// Find examines a bounded part of the database and returns its most urgent problems, at most limit. allowed are patterns of
// the queues to examine, as in belfry.matches. If allowed is nil, Find examines all queues, and also looks for held
// snapshots. Only a request from the beginning looks for held snapshots and schedules. Errors: CodeUnavailable.
func (f *Finder) Find(ctx context.Context, from Position, limit int, allowed []string) (*Found, error) {
	s := &search{Finder: f, allowed: postgres.LikePatterns(allowed), found: &Found{}}
	err := s.run(ctx, from, allowed == nil && from == Position{})
	if err != nil {
		return nil, postgres.Wrapf(err, "looking for problems")
	}
	all := s.found.Problems
	slices.SortStableFunc(all, compare)
	s.found.Total = len(all)
	s.found.Problems = all[:min(limit, len(all))]
	return s.found, postgres.Wrapf(s.count(ctx), "counting the messages of problems")
}

// compare puts the most urgent problem first.
func compare(a, b Problem) int {
	urgent := 0
	if a.Urgent != b.Urgent {
		urgent = 1
		if a.Urgent {
			urgent = -1
		}
	}
	return cmp.Or(urgent, cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(b.Age, a.Age),
		cmp.Compare(b.Deliveries, a.Deliveries), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Schedule, b.Schedule))
}

// search is one request.
type search struct {
	*Finder
	allowed []string
	found   *Found
}

func (s *search) add(p Problem) { s.found.Problems = append(s.found.Problems, p) }

// full reports whether the problems of one more group could exceed MaxListed.
func (s *search) full() bool { return len(s.found.Problems) > MaxListed-5 }

func (s *search) run(ctx context.Context, from Position, snapshots bool) error {
	if snapshots {
		if err := s.snapshots(ctx); err != nil {
			return err
		}
	}
	if from == (Position{}) {
		if err := s.schedules(ctx); err != nil {
			return err
		}
	}
	if !from.Groups {
		if err := s.pauses(ctx, from.After); err != nil || s.found.Next != nil {
			return err
		}
		from.After = 0
	}
	return s.groups(ctx, from.After)
}

// snapshots adds the transactions that have been open for snapshotAge.
func (s *search) snapshots(ctx context.Context) error {
	type transaction struct {
		PID                               int64
		Username, Application, State, GID string
		Began                             time.Time
		Seconds                           float64
	}
	open, err := postgres.Collect(ctx, s.pool, sqlSnapshots, pgx.RowToStructByPos[transaction], s.snapshotAge.Seconds())
	for _, t := range open {
		age := time.Duration(t.Seconds * float64(time.Second))
		s.add(Problem{Kind: HeldSnapshot, Urgent: age >= urgentAfter, Age: age, Session: describe(t.PID, t.Username, t.Application, t.GID)})
	}
	return err
}

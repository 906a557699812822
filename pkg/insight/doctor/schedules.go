package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlSchedules        = sql.Query("insight/doctor/schedules")
	sqlPausedSchedules  = sql.Query("insight/doctor/paused_schedules")
	sqlBoundedSchedules = sql.Query("insight/doctor/bounded_schedules")
	sqlQueueDepth       = sql.Query("engine/store/queue_depth")
)

// scheduleChecks examine the schedules.
var scheduleChecks = []check{
	{"schedules_late", "An instance stores the message of a schedule within seconds. A later message means that no instance can do this work.", checkLateSchedules},
	{"schedule_errors", "A schedule with an error stores no messages until somebody changes it.", checkFailedSchedules},
	{"schedule_queues", "The messages of a schedule reach nobody while its queue is paused, and are rejected while its queue is full.", checkScheduleQueues},
}

// troubled is a schedule that is late or has an error. The file of sqlSchedules describes the columns.
type troubled struct {
	name, queue, problem string
	seconds              float64
	number               int64
}

func readTroubled(row pgx.CollectableRow) (s troubled, err error) {
	return s, row.Scan(&s.name, &s.queue, &s.problem, &s.seconds, &s.number)
}

// troubledSchedules returns the late schedules, or the schedules with an error.
func (e *exam) troubledSchedules(ctx context.Context, late bool) (kept []troubled, err error) {
	found, err := collect(ctx, e, sqlSchedules, readTroubled, e.Limits.ScheduleLate.Seconds())
	for _, one := range found {
		if late == (one.problem == "") {
			kept = append(kept, one)
		}
	}
	return kept, err
}

func checkLateSchedules(ctx context.Context, e *exam) outcome {
	late, err := e.troubledSchedules(ctx, true)
	if err != nil {
		return failed(err)
	}
	if len(late) == 0 {
		return fine("No schedule has been due for more than %s.", e.Limits.ScheduleLate)
	}
	names := make([]string, len(late))
	for i, s := range late {
		names[i] = fmt.Sprintf("%q of queue %q for %s", s.name, s.queue, duration(s.seconds).Round(time.Second))
	}
	return wrong("%s schedules are due, and no instance has stored their messages: %s.", counted(late[0].number), strings.Join(names, ", ")).advise(
		"Start an instance of Belfry on this database.", "Look for the reason in the log of the instances.",
		"Find the transaction that has changed the schedule and is still open: SELECT pid, usename, application_name, xact_start FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start LIMIT 5;")
}

func checkFailedSchedules(ctx context.Context, e *exam) outcome {
	broken, err := e.troubledSchedules(ctx, false)
	if err != nil {
		return failed(err)
	}
	if len(broken) == 0 {
		return fine("No schedule has an error.")
	}
	names := make([]string, len(broken))
	for i, s := range broken {
		names[i] = fmt.Sprintf("%q of queue %q (%s)", s.name, s.queue, s.problem)
	}
	return warning("%s schedules have an error: %s.", counted(broken[0].number), strings.Join(names, "; ")).advise(
		"SELECT name, queue, error FROM belfry.schedules WHERE error IS NOT NULL;",
		"Correct the schedule with \"belfry schedule set\", or delete it.", "belfry schedule delete "+shellWord(broken[0].name))
}

func checkScheduleQueues(ctx context.Context, e *exam) outcome {
	paused, steps, err := pausedSchedules(ctx, e)
	if err != nil {
		return failed(err)
	}
	full, more, err := fullSchedules(ctx, e)
	if err != nil {
		return failed(err)
	}
	found := slices.Concat(paused, full)
	if len(found) == 0 {
		return fine("No queue that receives messages of a schedule is paused or full.")
	}
	return warning("Schedules have queues that deliver or store no messages: %s.", strings.Join(found, "; ")).advise(slices.Concat(steps, more)...)
}

// pausedSchedules describes the paused queues that have a schedule.
func pausedSchedules(ctx context.Context, e *exam) (found, steps []string, err error) {
	type paused struct {
		Queue, Schedule string
		Number          int64
	}
	queues, err := collect(ctx, e, sqlPausedSchedules, pgx.RowToStructByPos[paused])
	for _, q := range queues {
		found = append(found, fmt.Sprintf("queue %q of schedule %q is paused", q.Queue, q.Schedule))
	}
	if len(queues) > 0 {
		steps = []string{"belfry queue resume " + shellWord(queues[0].Queue), "If nobody needs the messages: \"belfry schedule pause NAME\"."}
		if more := queues[0].Number - int64(len(queues)); more > 0 {
			found = append(found, fmt.Sprintf("%d more queues are paused", more))
		}
	}
	return found, steps, err
}

// fullSchedules describes the full queues that have a schedule.
func fullSchedules(ctx context.Context, e *exam) (found, steps []string, err error) {
	type bounded struct {
		ID              int64
		Queue, Schedule string
	}
	queues, err := collect(ctx, e, sqlBoundedSchedules, pgx.RowToStructByPos[bounded])
	for _, q := range queues {
		type size struct {
			Max, Depth int64
			Unread     bool
		}
		sizes, err := collect(ctx, e, sqlQueueDepth, pgx.RowToStructByPos[size], q.ID)
		if err != nil {
			return nil, nil, err
		}
		if len(sizes) == 1 && sizes[0].Depth >= sizes[0].Max {
			found = append(found, fmt.Sprintf("queue %q of schedule %q is full: %d messages wait, and maxSize is %d", q.Queue, q.Schedule, sizes[0].Depth, sizes[0].Max))
			steps = []string{"Start more consumers of the queue, or raise maxSize with \"belfry queue configure\".", "Then move the rejected messages back: SELECT belfry.inbox_retry();"}
		}
	}
	return found, steps, err
}

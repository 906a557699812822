package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// idleSchedules is the number of schedules that are not due.
	idleSchedules = 100_000
	// dueSchedules is the number of schedules that are due at the same instant.
	dueSchedules = 1000
	// schedulePartitions is the number of partitions of their queue. Each partition has a waiting consumer.
	schedulePartitions = 10
	// scheduleLead is the time between the creation of these schedules and their instant. The server computes their
	// instants in this time.
	scheduleLead   = 3 * time.Second
	scheduleTarget = 50 * time.Millisecond
	scheduleQueue  = "scheduled"
)

const sqlIdleSchedules = `
INSERT INTO belfry.schedule (name, queue, every_seconds, payload, scheduled_by, handled_to, next_at, due_at)
SELECT 'idle-' || i, 'idle', 86400, '{}', current_user::regrole, now(), now() + (86400 + i) * interval '1 s', now() + (86400 + i) * interval '1 s'
  FROM generate_series(1, $1::int) i`

const sqlDueSchedules = `
SELECT belfry.schedule('due-' || i, $1, '{"n": 1}', at => $2, partition => 'p' || i % $3::int) FROM generate_series(1, $4::int) i`

// measureSchedules measures messages of schedules: from their instant, by the clock of the database, to the arrival at a waiting
// consumer. All schedules that are due have the same instant.
func measureSchedules(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx, 1, []string{""}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	database, err := pgx.Connect(ctx, r.cluster.URL(t.database))
	if err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	defer func() { err = errors.Join(err, database.Close(context.WithoutCancel(ctx))) }()
	s := &scheduleRounds{trial: t, sql: database, arrived: make(chan arrival, dueSchedules), late: load.NewTimes(), last: load.NewTimes(), floor: load.NewTimes()}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	waiting := load.NewWorkers(ctx)
	for n := range schedulePartitions {
		waiting.Go(func(ctx context.Context) error { return s.consume(ctx, "p"+strconv.Itoa(n)) })
	}
	// The first two rounds fill caches and are not counted.
	for round := -2; err == nil && round < r.scheduleRounds; round++ {
		if round == 0 {
			err = errors.Join(rig.ResetStatements(ctx, r.admin, t.database), s.count(ctx, -1))
		}
		err = s.round(waiting.Context, round >= 0)
	}
	if err == nil {
		err = errors.Join(s.count(ctx, 1), s.remark(ctx, out))
	}
	if err == nil {
		err = s.idle(ctx, out)
	}
	if err = errors.Join(err, waiting.Stop()); err != nil {
		return err
	}
	s.report(out)
	return nil
}

// arrival is a message that a consumer received.
type arrival struct {
	id string
	at time.Time
}

type scheduleRounds struct {
	*trial
	sql     *pgx.Conn
	arrived chan arrival
	// late has the lateness of each message, last the lateness of the last message of each round. floor has the times of a plain
	// INSERT of as many rows.
	late, last, floor   *load.Times
	early, twice, stuck int
	// Both count messages of the counted rounds, by the metric of the server. Those of inTime were committed at most scheduleTarget
	// after their instant.
	stored, inTime float64
}

func (s *scheduleRounds) prepare(ctx context.Context) error {
	if err := createQueues(ctx, s.Client, []string{scheduleQueue}, nil); err != nil {
		return err
	}
	if _, err := s.sql.Exec(ctx, sqlIdleSchedules, idleSchedules); err != nil {
		return fmt.Errorf("making schedules: %w", err)
	}
	for _, statement := range []string{
		`VACUUM (ANALYZE) belfry.schedule`,
		`CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE, payload json)`,
	} {
		if _, err := s.sql.Exec(ctx, statement); err != nil {
			return fmt.Errorf("preparing the database: %w", err)
		}
	}
	return nil
}

// count adds the metric of the lateness of the server, times a factor.
func (s *scheduleRounds) count(ctx context.Context, factor float64) error {
	all, err := metric(ctx, s.Client, "belfry_schedule_lateness_seconds_count")
	if err != nil {
		return err
	}
	inTime, err := metric(ctx, s.Client, fmt.Sprintf(`belfry_schedule_lateness_seconds_bucket{le="%g"}`, scheduleTarget.Seconds()))
	s.stored, s.inTime = s.stored+factor*all, s.inTime+factor*inTime
	return err
}

// consume keeps one request waiting for a partition.
func (s *scheduleRounds) consume(ctx context.Context, partition string) error {
	path := fmt.Sprintf("/api/v1/pop/queue/%s/partition/%s?batch=%d&wait=true&timeout=%d&autoAck=true", scheduleQueue, partition, dueSchedules, longWait.Milliseconds())
	for {
		var d timerPop
		if _, err := s.servers[0].Call(ctx, http.MethodGet, path, nil, &d); err != nil {
			return err
		}
		at := time.Now()
		for _, m := range d.Messages {
			s.arrived <- arrival{m.TransactionID, at}
		}
	}
}

// round makes schedules with the same instant, and collects their messages. Before that, it measures a plain INSERT.
func (s *scheduleRounds) round(ctx context.Context, counted bool) error {
	if err := s.waitArrived(ctx, s.servers[0], schedulePartitions); err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.sql.Exec(ctx, `INSERT INTO plain (name, payload) SELECT $1 || i, '{"n": 1}' FROM generate_series(1, $2::int) i`, began.String(), dueSchedules); err != nil {
		return fmt.Errorf("inserting rows: %w", err)
	}
	floor := time.Since(began)
	// The instant is between two full seconds, so that no timer of the system fires at the same time.
	instant := time.Now().Add(scheduleLead).Truncate(time.Second).Add(500 * time.Millisecond)
	if _, err := s.sql.Exec(ctx, sqlDueSchedules, scheduleQueue, instant, schedulePartitions, dueSchedules); err != nil {
		return fmt.Errorf("making schedules: %w", err)
	}
	patience, cancel := context.WithDeadline(ctx, instant.Add(timerPatience))
	defer cancel()
	seen := map[string]bool{}
	var last time.Duration
	for len(seen) < dueSchedules {
		select {
		case got := <-s.arrived:
			if seen[got.id] || !strings.HasSuffix(got.id, "@"+instant.UTC().Format(time.RFC3339Nano)) {
				s.twice++
				continue
			}
			seen[got.id] = true
			late := got.at.Sub(instant)
			last = max(last, late)
			if late < 0 {
				s.early++
			}
			if counted {
				s.late.Add(late)
			}
		case <-patience.Done():
			s.stuck += dueSchedules - len(seen)
			return ctx.Err()
		}
	}
	if counted {
		s.last.Add(last)
		s.floor.Add(floor)
	}
	// The schedules have no further instants.
	_, err := s.sql.Exec(ctx, `DELETE FROM belfry.schedule WHERE queue = $1`, scheduleQueue)
	return err
}

// remark lists the statements of the counted rounds.
func (s *scheduleRounds) remark(ctx context.Context, out *rig.Report) error {
	all, err := s.statements(ctx)
	if err == nil {
		out.Remark(fmt.Sprintf("statements of a round with %d messages", dueSchedules), describe(all, s.scheduleRounds))
	}
	return err
}

// idle counts the statements while no schedule is due.
func (s *scheduleRounds) idle(ctx context.Context, out *rig.Report) error {
	if err := s.waitWritten(ctx); err != nil {
		return err
	}
	if err := s.waitQuiet(ctx, arrivalRest); err != nil {
		return err
	}
	if err := rig.ResetStatements(ctx, s.admin, s.database); err != nil {
		return err
	}
	if err := load.Pause(ctx, s.idleFor); err != nil {
		return err
	}
	all, err := s.statements(ctx)
	if err != nil {
		return err
	}
	of := callsOf(all, "engine/schedule/due", "engine/schedule/tick")
	out.Count(fmt.Sprintf("statements of schedules in %s, %d are not due", s.idleFor, idleSchedules), of, 0)
	out.Remark(fmt.Sprintf("all statements in %s", s.idleFor), list(all))
	return nil
}

func (s *scheduleRounds) report(out *rig.Report) {
	out.Never("stuck", s.stuck)
	out.Never("delivered before the instant", s.early)
	out.Never("delivered twice", s.twice)
	out.Note(fmt.Sprintf("a plain INSERT of %d rows, p50, max", dueSchedules), rig.Millis(s.floor.Quantile(0.5))+", "+rig.Millis(s.floor.Quantile(1)))
	share := s.inTime / s.stored
	out.Target(fmt.Sprintf("share of %g messages stored within %s", s.stored, scheduleTarget), fmt.Sprintf("%.2f %%", 100*share), ">= 99 %", share >= 0.99)
	out.NoteTime(fmt.Sprintf("lateness of %d at a consumer, p50", s.late.Count()), s.late, 0.5)
	out.NoteTime("lateness at a consumer, p99", s.late, 0.99)
	out.NoteTime("lateness at a consumer, max", s.late, 1)
	out.NoteTime("lateness at a consumer of the last of each round, p50", s.last, 0.5)
}

package problem

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// describe names a session, or a prepared transaction if gid is not empty.
func describe(pid int64, username, application, gid string) string {
	if gid != "" {
		return fmt.Sprintf("prepared transaction %q of user %q", gid, username)
	}
	return fmt.Sprintf("session %d of user %q, application %q", pid, username, application)
}

// schedules adds the late schedules and the schedules with an error.
func (s *search) schedules(ctx context.Context) error {
	type row struct {
		Name, Queue string
		Error       *string
		Age         *postgres.Seconds
	}
	rows, err := postgres.Collect(ctx, s.pool, sqlSchedules, pgx.RowToStructByPos[row], scheduleLate.Seconds(), int64(schedulesExamined), s.allowed)
	for _, one := range rows {
		p := Problem{Kind: ScheduleError, Queue: one.Queue, Schedule: one.Name}
		if one.Error != nil {
			p.Error = *one.Error
		}
		if one.Age != nil {
			p.Kind, p.Age = ScheduleLate, time.Duration(*one.Age)
			p.Urgent = p.Age >= urgentAfter
		}
		s.add(p)
	}
	return err
}

// pauses adds the paused queues and the queues with paused partitions, after an id.
func (s *search) pauses(ctx context.Context, after int64) error {
	type row struct {
		ID        int64
		Queue     *string
		Paused    bool
		Partition *int64
	}
	rows, err := postgres.Collect(ctx, s.pool, sqlPaused, pgx.RowToStructByPos[row], after, int64(examined), s.allowed)
	for i := range rows {
		q := &rows[i]
		if q.Queue != nil {
			s.found.Examined++
			if q.Paused {
				s.add(Problem{Kind: PausedQueue, Queue: *q.Queue})
			}
			if q.Partition != nil {
				s.add(Problem{Kind: PausedPartition, Queue: *q.Queue, partition: *q.Partition})
			}
		}
		if s.full() || i+1 == examined {
			s.found.Next = &Position{After: q.ID}
			return nil
		}
	}
	return err
}

// group is a group with ready or leased partitions, dead letters or a pause.
type group struct {
	ID           int64
	Queue        *string
	Name         string
	QueueID      int64
	Paused, Dead bool
}

// groups adds the problems of the groups after an id.
func (s *search) groups(ctx context.Context, after int64) error {
	rows, err := postgres.Collect(ctx, s.pool, sqlGroups, pgx.RowToStructByPos[group], after, int64(examined), s.allowed)
	if err != nil {
		return err
	}
	keys := make([]int64, 0, len(rows))
	for i := range rows {
		if rows[i].Queue != nil {
			keys = append(keys, rows[i].ID)
		}
	}
	worst, err := s.heads(ctx, keys)
	if err != nil {
		return err
	}
	for i := range rows {
		g := &rows[i]
		if g.Queue != nil {
			s.found.Examined++
			s.judge(g, worst[g.ID])
		}
		if s.full() || i+1 == examined {
			s.found.Next = &Position{Groups: true, After: g.ID}
			break
		}
	}
	return nil
}

// judge adds the problems of one group.
func (s *search) judge(g *group, worst heads) {
	at := Problem{Queue: *g.Queue, Group: g.Name, group: g.ID}
	if h := worst.blocked; h != nil {
		p := at
		p.Kind, p.Age, p.Deliveries, p.Failures, p.Message, p.partition = Blocked, h.age(), h.Attempts, h.Failures, h.Message, h.Partition
		p.Urgent = p.Age >= urgentAfter
		s.add(p)
	}
	if h := worst.stuck; h != nil {
		p := at
		p.Kind, p.Age, p.Deliveries, p.Failures, p.RetryIn, p.partition = StuckHead, h.age(), h.Attempts, h.Failures, time.Duration(h.RetryIn), h.Partition
		p.Urgent = p.Age >= urgentAfter
		s.add(p)
	}
	if h := worst.late; h != nil {
		p := at
		p.Kind, p.Age, p.Urgent = Lag, h.age(), h.age() >= urgentAfter
		s.add(p)
	}
	if g.Dead {
		p := at
		p.Kind = DeadLetters
		s.add(p)
	}
	if g.Paused {
		p := at
		p.Kind = PausedGroup
		s.add(p)
	}
}

// head is the first unfinished message of a partition.
type head struct {
	Group, Partition   int64
	Age                postgres.Seconds
	Late, Stuck        bool
	Attempts, Failures int64
	RetryIn            postgres.Seconds
	Blocked            bool
	Message            string
}

func (h *head) age() time.Duration { return max(0, time.Duration(h.Age)) }

// heads are the oldest late head of a group, the stuck head with the most deliveries, and a head that blocks its partition.
type heads struct{ late, stuck, blocked *head }

// heads returns the worst heads of each group that has any.
func (s *search) heads(ctx context.Context, keys []int64) (map[int64]heads, error) {
	rows, err := postgres.Collect(ctx, s.pool, sqlHeads, pgx.RowToStructByPos[head], keys, s.cfg.LateAfter.Seconds(), int64(stuckAfter), stuckWait.Seconds())
	worst := map[int64]heads{}
	for i := range rows {
		h, w := &rows[i], worst[rows[i].Group]
		if h.Late && (w.late == nil || h.Age > w.late.Age) {
			w.late = h
		}
		if h.Stuck && (w.stuck == nil || h.Attempts > w.stuck.Attempts || h.Attempts == w.stuck.Attempts && h.Age > w.stuck.Age) {
			w.stuck = h
		}
		if h.Blocked && w.blocked == nil {
			w.blocked = h
		}
		worst[h.Group] = w
	}
	return worst, err
}

// count fills in the messages and the names of the partitions that have problems.
func (s *search) count(ctx context.Context) error {
	var listed []*Problem
	var groups, partitions []int64
	for i := range s.found.Problems {
		if p := &s.found.Problems[i]; p.partition != 0 {
			listed, groups, partitions = append(listed, p), append(groups, p.group), append(partitions, p.partition)
		}
	}
	if len(listed) == 0 {
		return nil
	}
	_, err := postgres.Collect(ctx, s.pool, sqlCounts, func(row pgx.CollectableRow) (none struct{}, err error) {
		var ord, messages int64
		var partition string
		if err = row.Scan(&ord, &partition, &messages); err == nil {
			listed[ord-1].Partition, listed[ord-1].Messages = partition, messages
		}
		return none, err
	}, groups, partitions)
	return err
}

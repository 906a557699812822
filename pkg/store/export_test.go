package store

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// PushAlone is Push without the manager: in a transaction of its own.
func (s *Store) PushAlone(ctx context.Context, items []queue.PushItem) error {
	p := newPush(items)
	opened, err := s.open(ctx, p.lanes)
	if err != nil {
		return err
	}
	for _, name := range p.lanes {
		p.opened = append(p.opened, opened[name])
	}
	_, err = s.flushPushes(ctx, []*push{p})
	return err
}

// DueFloor is the instant before which nothing of a group is looked for.
func (s *Store) DueFloor(group int64) time.Time { return s.floors.lowest(group).Time }

// ToldPace is how often at most Run settles what consumers in SQL leave.
const ToldPace = toldPace

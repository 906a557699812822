package store

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Observe subscribes h to what the store commits, and makes it the store's Handoffs.
func (s *Store) Observe(h interface {
	events.Handler
	Handoffs
}) {
	s.handoffs = h
	s.events.Subscribe(h)
}

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

// OpenedAs is what is remembered of the partition of an item.
func (s *Store) OpenedAs(ctx context.Context, item queue.PushItem) *queue.Partition {
	name := laneName{item.Queue, item.Partition}
	opened, err := s.open(ctx, []laneName{name})
	if err != nil {
		panic(err)
	}
	return opened[name]
}

// Learn remembers what was looked up some time ago.
func (s *Store) Learn(p *queue.Partition) { s.names.add([]*queue.Partition{p}) }

// DueFloor is the instant before which nothing of a group is looked for.
func (s *Store) DueFloor(group int64) time.Time { return s.floors.lowest(group).Time }

// ToldPace is how often at most Run settles what consumers in SQL leave.
const ToldPace = toldPace

package store

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/store/internal/wake"
)

// Observe subscribes h to what the store commits, and makes it the store's Handoffs.
func (s *Store) Observe(h interface {
	events.Handler
	Handoffs
}) {
	s.handoffs = h
	s.bus.Subscribe(h)
}

// OpenedAs returns what is remembered of the partition of an item.
func (s *Store) OpenedAs(ctx context.Context, item queue.PushItem) *queue.Partition {
	name := names.PartitionName{Queue: item.Queue, Partition: item.Partition}
	opened, err := s.names.Open(ctx, []names.PartitionName{name})
	if err != nil {
		panic(err)
	}
	return opened[name]
}

// Learn remembers what was looked up some time ago.
func (s *Store) Learn(p *queue.Partition) { s.names.Remember(p) }

// DueFloor returns the instant before which nothing of a group is looked for.
func (s *Store) DueFloor(group int64) time.Time { return s.floors.Lowest(group).Time }

// SettleInterval is the least time between two rounds in which Run settles what SQL consumers leave.
const SettleInterval = wake.SettleInterval

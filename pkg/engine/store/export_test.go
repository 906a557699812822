package store

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Observe subscribes h to the events of the store and makes it the store's Handoffs.
func (s *Store) Observe(h interface {
	events.Handler
	Handoffs
}) {
	s.handoffs = h
	s.bus.Subscribe(h)
}

// OpenedAs returns the cached partition of an item.
func (s *Store) OpenedAs(ctx context.Context, item queue.PushItem) *queue.Partition {
	name := names.PartitionName{Queue: item.Queue, Partition: item.Partition}
	opened, err := s.names.Open(ctx, []names.PartitionName{name}, nil)
	if err != nil {
		panic(err)
	}
	return opened[name]
}

// Learn puts a partition into the cache.
func (s *Store) Learn(p *queue.Partition) { s.names.Remember(p) }

// DueFloor returns the scan floor of a group: scans skip cursors that were ready before it.
func (s *Store) DueFloor(group int64) time.Time { return s.floors.Lowest(group).Time }

// SettleInterval is the minimum time between two pages of announced cursors that Run settles.
const SettleInterval = wake.SettleInterval

// LimitPops sets Config.MaxPopBytes. Do not call it during a pop.
func (s *Store) LimitPops(bytes int64) { s.claims.MaxBytes = bytes }

// HealPass is a heal of all cursors that can be continued after an error.
type HealPass = wake.Pass

// GoOnHealing continues pass.
func (s *Store) GoOnHealing(ctx context.Context, pass *HealPass) error {
	return s.waker.Heal(ctx, pass)
}

// Heal wakes every partition whose wake did not run because of a crash. It returns the number of woken
// partitions.
func (s *Store) Heal(ctx context.Context) (healed int, err error) {
	var pass wake.Pass
	err = s.waker.Heal(ctx, &pass)
	return pass.Partitions, err
}

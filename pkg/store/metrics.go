package store

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/store/internal/claim"
	"github.com/belfry-mq/belfry/pkg/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/store/internal/push"
)

// Metrics are the metrics of a Store: of group commit by operation, and of what claims skip and pushes refuse.
type Metrics struct {
	flushes *groupcommit.Metrics
	claims  *claim.Metrics
	pushes  *push.Metrics
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{flushes: groupcommit.NewMetrics(reg), claims: claim.NewMetrics(reg), pushes: push.NewMetrics(reg)}
}

// observe registers the gauges of the store's managers.
func (m *Metrics) observe(s *Store) {
	managers := map[string]func() batch.Status{"push": s.pushes.Status, "transaction": s.transactions.Status}
	maps.Copy(managers, s.claims.Status())
	maps.Copy(managers, s.acks.Status())
	for op, status := range managers {
		m.flushes.ObserveStatus(op, status)
	}
}

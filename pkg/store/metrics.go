package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/pkg/store/internal/claim"
	"github.com/belfry-mq/belfry/pkg/store/internal/groupcommit"
)

// Metrics are the metrics of a Store: of group commit by operation, and of what claims skip.
type Metrics struct {
	flushes *groupcommit.Metrics
	claims  *claim.Metrics
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{flushes: groupcommit.NewMetrics(reg), claims: claim.NewMetrics(reg)}
}

package push

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Metrics count what pushes refuse.
type Metrics struct{ refusedWithoutKey prometheus.Counter }

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{refusedWithoutKey: promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Name: "belfry_messages_refused_without_key_total",
		Help: "Messages refused because their queue has encryptionEnabled and this server has no encryption.key.",
	})}
}

// CheckKey refuses a call with a message that must be sealed while there is no key. The partitions
// of the call must be open. The check comes before the flush, so that the call does not split a flush
// with calls of other clients. Columns fails too, if it gets such a message.
//
// The option may have changed since the partitions were opened. So the next call reads it again.
func (p *Pusher) CheckKey(call *Call) error {
	for _, partition := range call.Opened {
		if refused := p.refuseWithoutKey(partition); refused != nil {
			p.Metrics.refusedWithoutKey.Add(float64(len(call.Items)))
			p.Names.Forget(call.Opened)
			return refused
		}
	}
	return nil
}

// refuseWithoutKey returns why a message of the partition cannot be stored, or nil.
func (p *Pusher) refuseWithoutKey(partition *queue.Partition) *queue.Error {
	if !partition.Sealed || p.Sealer.HasKey() || p.Sealer.AllowsPlaintext() {
		return nil
	}
	return queue.Invalidf("queue %q has encryptionEnabled, and this server cannot encrypt: set encryption.key,"+
		" or encryption.allow_plaintext to store its messages unencrypted", partition.Queue)
}

// refuseSealed refuses the items that must be sealed while there is no key. All items of their queue
// are refused, so it does not matter that the quota counts them until its next measurement.
func (p *Pusher) refuseSealed(call *Call, results []queue.SequenceResult) {
	for i := range call.Items {
		if refused := p.refuseWithoutKey(call.Opened[call.partitionOf[i]]); refused != nil {
			p.Metrics.refusedWithoutKey.Inc()
			results[i].Refused = refused
		}
	}
}

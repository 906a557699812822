package dispatch

import (
	"context"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The sources of a wake, as the metrics name them. A further one is notify.ByTimer: an instant came at
// which something is due.
const (
	wakeArrival  = "arrival"  // the request has just arrived
	wakeLocal    = "local"    // an event of this instance
	wakeNotify   = "notify"   // an event of another instance or of a SQL session
	wakeHandoff  = "handoff"  // a push of this instance claimed for the request
	wakeSweep    = "sweep"    // a resync
	wakeFallback = "fallback" // the fallback timer
)

// OnReady wakes the intents that wait for these partitions or their groups.
func (d *Dispatcher) OnReady(ready []queue.Ready, from events.Origin) {
	source, announce := wakeLocal, d.Readiness.Ready
	if from != events.Here {
		source, announce = wakeNotify, d.Readiness.Notified
	}
	woken := announce(ready, source)
	d.Metrics.announced.WithLabelValues(source).Add(float64(len(ready)))
	d.Metrics.woken.WithLabelValues(source).Add(float64(woken))
}

// OnCreated wakes intents that wait for a name that did not exist, one for each name. A peer does not
// send the name, so its event stands for every name.
func (d *Dispatcher) OnCreated(queueName, partition string, from events.Origin) {
	if from == events.Here {
		woken := d.Readiness.Created(queueName, partition, wakeLocal)
		d.Metrics.woken.WithLabelValues(wakeLocal).Add(float64(woken))
		return
	}
	woken := d.Readiness.CreatedUnnamed(wakeNotify)
	d.Metrics.woken.WithLabelValues(wakeNotify).Add(float64(woken))
}

// endRevoked ends the waits of intents whose rights were revoked, until ctx ends. It returns nil.
func (d *Dispatcher) endRevoked(ctx context.Context) error {
	for {
		revocation := d.NextRevocation()
		d.Intents.endRevoked()
		select {
		case <-revocation:
		case <-ctx.Done():
			return nil
		}
	}
}

// OnResync forgets which targets are empty and makes every intent probe.
func (d *Dispatcher) OnResync(reason string, _ events.Origin) {
	woken := d.Readiness.Resync(wakeSweep)
	d.Metrics.woken.WithLabelValues(wakeSweep).Add(float64(woken))
	d.Log.Debug("a resync woke all waiting requests", zap.String("reason", reason), zap.Int("woken", woken))
}

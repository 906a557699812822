package dispatch

import (
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// wakeSource says why a waiting request probes.
type wakeSource string

// The sources, as the metrics name them.
const (
	// wakeArrival: the request has just arrived.
	wakeArrival wakeSource = "arrival"
	// wakeLocal: an event of this instance.
	wakeLocal wakeSource = "local"
	// wakeNotify: an event of another instance or of a SQL session.
	wakeNotify wakeSource = "notify"
	// wakeHandoff: a push of this instance claimed for the request.
	wakeHandoff wakeSource = "handoff"
	// wakeSweep: a resync.
	wakeSweep wakeSource = "sweep"
	// wakeTimer: an instant came at which something is due.
	wakeTimer wakeSource = "timer"
	// wakeFallback: the fallback timer.
	wakeFallback wakeSource = "fallback"
)

func sourceOf(from events.Origin) wakeSource {
	if from == events.Here {
		return wakeLocal
	}
	return wakeNotify
}

// OnReady wakes the requests that wait for these partitions or their groups.
func (d *Dispatcher) OnReady(ready []queue.Ready, from events.Origin) {
	source := sourceOf(from)
	d.intents.recordReady(ready, wakeRecord{source, time.Now()})
	woken := d.readiness.Ready(ready)
	d.metrics.announced.WithLabelValues(string(source)).Add(float64(len(ready)))
	d.metrics.woken.WithLabelValues(string(source)).Add(float64(woken))
}

// OnCreated wakes the requests that wait for a name that did not exist. A peer does not send the
// name, so its event wakes all of them.
func (d *Dispatcher) OnCreated(queueName, partition string, from events.Origin) {
	d.intents.recordCreated(wakeRecord{sourceOf(from), time.Now()})
	if from == events.Here {
		d.readiness.Created(queueName, partition)
	} else {
		d.readiness.CreatedUnnamed()
	}
}

// OnResync forgets which targets are empty and makes every waiting request probe.
func (d *Dispatcher) OnResync(reason string, _ events.Origin) {
	d.intents.recordResync(wakeRecord{wakeSweep, time.Now()})
	woken := d.readiness.Resync()
	d.metrics.woken.WithLabelValues(string(wakeSweep)).Add(float64(woken))
	d.log.Debug("a resync woke all waiting requests", zap.String("reason", reason), zap.Int("woken", woken))
}

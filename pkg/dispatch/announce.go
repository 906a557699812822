package dispatch

import (
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// wakeSource says why a waiting request looks.
type wakeSource string

// The sources, as the metrics name them.
const (
	// wakeArrival: it has only just come.
	wakeArrival wakeSource = "arrival"
	// wakeLocal and wakeNotify: this instance, another one did something.
	wakeLocal  wakeSource = "local"
	wakeNotify wakeSource = "notify"
	// wakeHandoff: a push of this instance claimed for it.
	wakeHandoff wakeSource = "handoff"
	// wakeSweep: something may have been missed.
	wakeSweep wakeSource = "sweep"
	// wakeTimer: an instant came at which something is due.
	wakeTimer wakeSource = "timer"
	// wakeFallback: nothing woke it for long.
	wakeFallback wakeSource = "fallback"
)

// OnReady wakes the requests that wait for these partitions.
func (d *Dispatcher) OnReady(ready []queue.Ready, from events.Origin) {
	if from == events.Here {
		d.announce(ready, wakeLocal)
	} else {
		d.announce(ready, wakeNotify)
	}
}

func (d *Dispatcher) announce(ready []queue.Ready, source wakeSource) {
	now := time.Now()
	woken := 0
	for _, r := range ready {
		group := key{target: queue.Target{Group: r.Group}}
		one := key{target: queue.Target{Group: r.Group, Partition: r.Partition}}
		at := now.Add(max(0, r.In))
		if !at.After(now) {
			d.intents.tell(source, now, group.target, one.target)
		}
		d.facts.drop(group, one)
		woken += d.notifier.Announce(group, at)
		if one != group {
			woken += d.notifier.Announce(one, at)
		}
	}
	d.metrics.announced.WithLabelValues(string(source)).Add(float64(len(ready)))
	d.metrics.woken.WithLabelValues(string(source)).Add(float64(woken))
}

// OnCreated wakes the requests that wait for a name that did not exist. A peer does not say which
// name it created, so then all of them look.
func (d *Dispatcher) OnCreated(queueName, partition string, from events.Origin) {
	now := time.Now()
	if from != events.Here {
		d.intents.tellBirth(wakeNotify, now)
		d.notifier.Announce(anyBirth, now)
		return
	}
	d.intents.tellBirth(wakeLocal, now)
	d.notifier.Announce(birthKey(queueName, partition), now)
	if partition == "" {
		// Pops by tags wait for any queue.
		d.notifier.Announce(anyBirth, now)
	}
}

// OnResync drops all knowledge and makes every waiting request look.
func (d *Dispatcher) OnResync(reason string, _ events.Origin) {
	d.facts.dropAll()
	d.intents.tellDoubt(time.Now())
	woken := d.notifier.AnnounceAll()
	d.metrics.woken.WithLabelValues(string(wakeSweep)).Add(float64(woken))
	d.log.Debug("all waiting requests look again", zap.String("reason", reason), zap.Int("woken", woken))
}

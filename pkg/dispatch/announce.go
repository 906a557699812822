package dispatch

import (
	"time"

	"go.uber.org/zap"

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

// Ready announces what a commit of this instance made poppable: to the requests
// waiting here, and to the other instances. It never blocks.
func (d *Dispatcher) Ready(ready []queue.Ready) {
	d.announce(ready, wakeLocal)
	d.others.Ready(ready)
}

// Remote announces what another instance reported.
func (d *Dispatcher) Remote(ready []queue.Ready) { d.announce(ready, wakeNotify) }

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

// Born announces a queue or partition created by this instance.
func (d *Dispatcher) Born(queueName, partition string) {
	now := time.Now()
	d.intents.tellBirth(wakeLocal, now)
	d.notifier.Announce(birthKey(queueName, partition), now)
	if partition == "" {
		// Pops by tags wait for any queue.
		d.notifier.Announce(anyBirth, now)
	}
	d.others.Born()
}

// RemoteBirth announces that another instance created something.
func (d *Dispatcher) RemoteBirth() {
	now := time.Now()
	d.intents.tellBirth(wakeNotify, now)
	d.notifier.Announce(anyBirth, now)
}

// Doubt says that something may have been missed: all knowledge is dropped and
// every waiting request looks.
func (d *Dispatcher) Doubt(reason string) {
	d.facts.dropAll()
	d.intents.tellDoubt(time.Now())
	woken := d.notifier.AnnounceAll()
	d.metrics.woken.WithLabelValues(string(wakeSweep)).Add(float64(woken))
	d.log.Debug("all waiting requests look again", zap.String("reason", reason), zap.Int("woken", woken))
}

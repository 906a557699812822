package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/sweep"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// buildHub constructs what collects the events for watchers.
func (b builder) buildHub() {
	b.hub = live.New(live.Deps{
		Instance: b.instance, Host: hostname(), Reader: live.NewDatabase(b.pool, audit.NewLog(b.pool, b.log)), Send: b.sender.SendLive,
		Listener: func() string {
			state, _ := b.listener.State()
			return string(state)
		},
		Waiting: func() int { return b.dispatcher.Waiting() }, WaitingByQueue: b.waitingByQueue,
		Peers: func() []queue.ID { return b.listener.PeerIDs() }, OwnUnwritten: func(size int) []byte { return b.writer.Unwritten(size) }, Log: b.log,
	}, b.cfg.Live)
	b.bus.Subscribe(b.hub)
	b.runs = append(b.runs, b.hub.Run)
	b.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "belfry_live_watchers", Help: "Clients that watch the events.",
	}, func() float64 { return float64(b.hub.Watching()) }))
}

// waitingByQueue counts the waiting requests by queue, without the pops by tags.
func (p *parts) waitingByQueue() map[string]int {
	byQueue := map[string]int{}
	for _, g := range p.dispatcher.WaitingGroups() {
		if g.Queue != "" {
			byQueue[g.Queue] += g.Waiting
		}
	}
	return byQueue
}

// counters count what sweeps do.
type counters []sweep.Counter

// Removed implements sweep.Counter.
func (all counters) Removed(queueName string, retention, completed, evicted int64) {
	for _, c := range all {
		c.Removed(queueName, retention, completed, evicted)
	}
}

// PartitionRemoved implements sweep.Counter.
func (all counters) PartitionRemoved(queueName string) {
	for _, c := range all {
		c.PartitionRemoved(queueName)
	}
}

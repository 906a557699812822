package app

import (
	"net"
	"os"
	"strconv"

	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// buildHistory constructs what writes the counts of this instance.
func (b builder) buildHistory() {
	b.bus.Subscribe(b.counts)
	if !b.cfg.History.Enabled {
		return
	}
	b.writer = history.NewWriter(b.pool, b.counts, history.Sources{
		Instance: history.Instance{ID: queue.NewID().String(), Hostname: hostname(), Port: portOf(b.addr), PID: os.Getpid()},
		Parked:   b.parked, Pool: b.connections, Written: b.changes.Changed,
	}, b.log)
	b.runs = append(b.runs, b.writer.Run)
}

// connections counts the connections of the pool.
func (b builder) connections() (size, idle, active int64) {
	now := b.pool.Stat()
	return int64(now.TotalConns()), int64(now.IdleConns()), int64(now.AcquiredConns())
}

// parked returns how many requests wait for a queue by name.
func (p *parts) parked() map[history.Key]int64 {
	waiting := map[history.Key]int64{}
	for _, g := range p.dispatcher.WaitingGroups() {
		if g.Namespace == "" && g.Task == "" {
			waiting[history.Key{Queue: g.Queue, Group: g.Group}] += int64(g.Waiting)
		}
	}
	return waiting
}

// portOf returns the port of a listener; 0: it has none.
func portOf(addr net.Addr) int {
	_, text, _ := net.SplitHostPort(addr.String())
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return port
}

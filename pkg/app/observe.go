package app

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// buildDashboard constructs the dashboard, which calls the API like a client. auth and signIn may be nil.
func (b builder) buildDashboard(auth httpapi.Authenticator, signIn dashboard.Provider) (err error) {
	if !b.cfg.Dashboard.Enabled {
		return nil
	}
	b.bus.Subscribe(dashboardEvents{changes: b.changes})
	b.dashboard, err = dashboard.New(b.cfg.Dashboard, dashboard.Deps{
		API: b.server.Handler(), Auth: auth, Provider: signIn, Changes: b.changes, Watch: (&eventWatch{hub: b.hub, totals: b.totals}).run,
		Version: Version(), Log: b.log, Memory: b.server.Inflight(),
	})
	b.api.Dashboard = b.dashboard
	return err
}

// eventWatch watches the events of all instances and the totals for the dashboard.
type eventWatch struct {
	hub    *live.Hub
	totals *totals.Counter
	mu     sync.Mutex
	// last is the id of the latest event. mu guards it.
	last string
}

// run calls changed for each event that changes a figure, and when the totals differ from what a page got. It continues after
// the latest event of the previous run. It returns when ctx ends or the server stops.
func (e *eventWatch) run(ctx context.Context, changed func()) error {
	e.mu.Lock() // waits until the previous run has ended
	defer e.mu.Unlock()
	w, err := e.hub.Watch(live.Filter{Audit: true}, e.last)
	if err != nil {
		return err
	}
	defer w.Close()
	defer e.totals.Watch(changed)()
	for event := range w.Events(ctx) {
		if event.ID != "" {
			e.last = event.ID
		}
		if changesFigures(&event) {
			changed()
		}
	}
	return nil
}

// changesFigures reports whether an event may change what a page shows.
func changesFigures(e *live.Event) bool {
	switch data := e.Data.(type) {
	case api.Snapshot: // other instances sent no events before they knew of the watch
		return len(data.Instances) > 1
	case api.Rates: // the event of a second without traffic has no queues
		return len(data.Queues) > 0
	}
	return true
}

// dashboardEvents tells the dashboard that its figures may have changed.
type dashboardEvents struct {
	events.Nop
	changes *source.Changes
}

// OnReady implements events.Handler.
func (d dashboardEvents) OnReady([]queue.Ready, events.Origin) { d.changes.Changed() }

// OnCreated implements events.Handler.
func (d dashboardEvents) OnCreated(_, _ string, _ events.Origin) { d.changes.Changed() }

// OnResync implements events.Handler.
func (d dashboardEvents) OnResync(string, events.Origin) { d.changes.Changed() }

// OnLeaseChanged implements events.Handler.
func (d dashboardEvents) OnLeaseChanged(queue.ID) { d.changes.Changed() }

// OnListening implements events.Handler.
func (d dashboardEvents) OnListening() { d.changes.Changed() }

// OnInbox implements events.Handler.
func (d dashboardEvents) OnInbox() { d.changes.Changed() }

// OnSetting implements events.Handler.
func (d dashboardEvents) OnSetting() { d.changes.Changed() }

// OnSchedule implements events.Handler.
func (d dashboardEvents) OnSchedule() { d.changes.Changed() }

// buildHistory constructs the writer of the counts of this instance.
func (b builder) buildHistory() {
	b.bus.Subscribe(b.counts)
	if !b.cfg.History.Enabled {
		return
	}
	b.writer = history.NewWriter(b.pool, b.counts, history.Sources{
		Instance: history.Instance{ID: queue.NewID().String(), Hostname: hostname(), Port: portOf(b.addr), PID: os.Getpid()},
		Parked:   b.parked, Pool: b.connections, Backlog: b.backlogs, Written: b.changes.Changed,
	}, b.log)
	b.runs = append(b.runs, b.writer.Run)
}

// backlogs counts the unfinished messages of all queues and groups.
func (b builder) backlogs(ctx context.Context) (*history.Backlogs, error) {
	s, err := b.totals.Fresh(ctx, 0)
	if err != nil {
		return nil, err
	}
	found := &history.Backlogs{At: s.At, Took: s.Took, Depths: map[history.Key]history.Depth{}}
	for i := range s.Queues {
		if q := &s.Queues[i]; q.Backlog() > 0 {
			found.Depths[history.Key{Queue: q.Name}] = history.Depth{Messages: q.Backlog(), Oldest: q.Oldest}
		}
	}
	for i := range s.Groups {
		if g := &s.Groups[i]; g.Lag > 0 {
			found.Depths[history.Key{Queue: g.Queue, Group: g.Name}] = history.Depth{Messages: g.Lag, Oldest: g.Oldest}
		}
	}
	return found, nil
}

// connections counts the connections of the pool.
func (b builder) connections() (size, idle, active int64) {
	now := b.pool.Stat()
	return int64(now.TotalConns()), int64(now.IdleConns()), int64(now.AcquiredConns())
}

// parked returns how many requests wait for each queue and group. Pops by tags do not count.
func (p *parts) parked() map[history.Key]int64 {
	waiting := map[history.Key]int64{}
	for _, g := range p.dispatcher.WaitingGroups() {
		if g.Namespace == "" && g.Task == "" {
			waiting[history.Key{Queue: g.Queue, Group: g.Group}] += int64(g.Waiting)
		}
	}
	return waiting
}

// portOf returns the port of a listener, or 0 if its address has no port.
func portOf(addr net.Addr) int {
	_, text, _ := net.SplitHostPort(addr.String())
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return port
}

// buildHub constructs the hub, which collects the events for watchers.
func (b builder) buildHub() {
	b.hub = live.New(live.Deps{
		Instance: b.instance, Host: hostname(), Reader: live.NewDatabase(b.pool, audit.NewLog(b.pool, b.log)), LateAfter: b.cfg.Problems.LateAfter, Counts: b.counts, Send: b.sender.SendLive,
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

// spareConnections are the connections of an instance beyond its pools: the listener, the sender, the health check, the sleeping
// sequencer, and a short-lived connection for migrations and checks.
const spareConnections = 5

// DoctorConfig returns the configuration of a doctor that examines these settings without a server.
func DoctorConfig(cfg config.Config, sealer *seal.Sealer) doctor.Config {
	perInstance := int64(cfg.Database.PoolSize) + inbox.Connections + spareConnections
	if cfg.Dispatch.UsePriorityDispatch {
		perInstance += int64(min(cfg.Dispatch.PollWorkers+1, maxUrgentConnections))
	}
	limits := doctor.DefaultLimits()
	limits.LateAfter = cfg.Problems.LateAfter
	return doctor.Config{
		URL: cfg.Database.DirectURL(), PoolURL: cfg.Database.URL, PerInstance: perInstance, Sealer: sealer,
		Retention: cfg.Retention.Completed, Version: Version(), Now: time.Now, Limits: limits,
	}
}

// doctor returns the doctor that examines the database and this server.
func (b builder) doctor(sealer *seal.Sealer, pushes *spool.Spool) *doctor.Doctor {
	examined := DoctorConfig(b.cfg, sealer)
	listener := b.listener
	examined.Process = &doctor.Process{
		Listener: func() (string, time.Duration) {
			state, proof := listener.State()
			return string(state), proof
		},
		SpoolDir: b.cfg.Spool.Dir, SpoolHealthy: pushes.Healthy,
		Authenticated: authenticated(b.cfg),
		Addr:          b.addr,
	}
	return doctor.New(examined)
}

package app

import (
	"context"
	"sync"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// buildDashboard constructs the dashboard. It calls the API as a client does. auth may be nil.
func (b builder) buildDashboard(auth httpapi.Authenticator) (err error) {
	if !b.cfg.Dashboard.Enabled {
		return nil
	}
	b.bus.Subscribe(dashboardEvents{changes: b.changes})
	b.dashboard, err = dashboard.New(b.cfg.Dashboard, dashboard.Deps{
		API: b.server.Handler(), Auth: auth, Changes: b.changes, Watch: (&eventWatch{hub: b.hub}).run, Version: Version(), Log: b.log, Memory: b.server.Inflight(),
	})
	b.api.Dashboard = b.dashboard
	return err
}

// eventWatch watches the events of all instances for the dashboard.
type eventWatch struct {
	hub *live.Hub
	mu  sync.Mutex
	// last is the id of the latest event. Under mu.
	last string
}

// run calls changed for each event that changes a figure, until ctx ends or the server stops. It goes on
// after the latest event of the run before.
func (e *eventWatch) run(ctx context.Context, changed func()) error {
	e.mu.Lock() // until the run before has ended
	defer e.mu.Unlock()
	w, err := e.hub.Watch(live.Filter{Audit: true}, e.last)
	if err != nil {
		return err
	}
	defer w.Close()
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

// changesFigures reports whether a page may show something else after an event.
func changesFigures(e *live.Event) bool {
	switch data := e.Data.(type) {
	case api.Snapshot: // what other instances did before they knew of the watch is in no event
		return len(data.Instances) > 1
	case api.Rates: // an idle second
		return len(data.Queues) > 0
	}
	return true
}

// dashboardEvents passes on to the dashboard that figures may have changed.
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

package app

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/live"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// buildDashboard constructs the dashboard. It calls the API as a client does. auth may be nil.
func (b builder) buildDashboard(auth httpapi.Authenticator) (err error) {
	if !b.cfg.Dashboard.Enabled {
		return nil
	}
	b.bus.Subscribe(dashboardEvents{changes: b.changes})
	b.dashboard, err = dashboard.New(b.cfg.Dashboard, dashboard.Deps{
		API: b.server.Handler(), Auth: auth, Changes: b.changes, Watch: b.watchEvents, Version: Version(), Log: b.log,
	})
	b.api.Dashboard = b.dashboard
	return err
}

// watchEvents calls changed for each event, until ctx ends or the server stops.
func (p *parts) watchEvents(ctx context.Context, changed func()) error {
	w, err := p.hub.Watch(live.Filter{Audit: true}, "")
	if err != nil {
		return err
	}
	defer w.Close()
	for range w.Events(ctx) {
		changed()
	}
	return nil
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

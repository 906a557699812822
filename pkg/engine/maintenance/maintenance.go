// Package maintenance keeps the two switches that an operator turns on for maintenance: one stops
// pushes, and one stops pops. A switch is valid for all instances, and survives restarts.
//
// Set writes a row and a notification in one transaction. Each instance has the switches in memory. A
// Watcher reads the switches again after each notification. It also reads them each time its LISTEN
// takes effect, because it did not receive earlier notifications.
//
// Every role of the database can notify. So the Watcher reads at most ten times a second. While the
// switches cannot be read, the last read values are in force.
package maintenance

import (
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlSet  = sql.Query("engine/maintenance/set")
	sqlList = sql.Query("engine/maintenance/list")
)

// Switch is the name of a switch in belfry.setting.
type Switch string

// The switches.
const (
	Push Switch = "push_maintenance"
	Pop  Switch = "pop_maintenance"
)

// Watcher holds the current values of the switches. It is safe for concurrent use.
type Watcher struct {
	events.Nop
	pool *postgres.Pool
	log  *zap.Logger
	// changed holds a signal if the switches must be read.
	changed events.Signal
	// OnChange is called when a switch has changed, and at the first Load. It must not block. Set it before Load.
	OnChange func(push, pop bool)

	// loading is held while the switches are read and stored, so that an older value never replaces
	// a newer value.
	loading sync.Mutex

	mu sync.Mutex
	// pushEnded and popEnded are nil without maintenance. They are closed when maintenance ends.
	pushEnded, popEnded chan struct{}
	loaded              bool
}

// NewWatcher returns a Watcher. Load the switches, subscribe the Watcher to the events, and run it.
func NewWatcher(pool *postgres.Pool, log *zap.Logger) *Watcher {
	return &Watcher{pool: pool, log: log, changed: events.NewSignal(), OnChange: func(_, _ bool) {}}
}

// PushPaused returns nil without push maintenance. Otherwise it returns a channel that is closed when push
// maintenance ends.
func (w *Watcher) PushPaused() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pushEnded
}

// PopPaused returns nil without pop maintenance. Otherwise it returns a channel that is closed when pop
// maintenance ends.
func (w *Watcher) PopPaused() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.popEnded
}

// Set turns a switch on or off for all instances, and writes the audit row. When Set returns nil, this
// instance uses the new value. Errors: CodeUnavailable; the switch may have changed nevertheless.
func (w *Watcher) Set(ctx context.Context, name Switch, enabled bool) error {
	err := w.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlSet, string(name), enabled); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"settings": 1})
	})
	if err != nil {
		return postgres.Wrapf(err, "setting %s", name)
	}
	return w.Load(ctx)
}

// OnSetting implements events.Handler.
func (w *Watcher) OnSetting() { w.changed.Set() }

// Run reads the switches when they may have changed, until ctx ends. It returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	return w.changed.Reread(ctx, w.Load, func(err error) {
		w.log.Warn("the switches for maintenance could not be read; the last values stay in force", zap.Error(err))
	})
}

// Load reads the switches. Errors: CodeUnavailable.
func (w *Watcher) Load(ctx context.Context) error {
	w.loading.Lock()
	defer w.loading.Unlock()
	on, err := postgres.Collect(ctx, w.pool, sqlList, pgx.RowTo[string])
	if err != nil {
		return postgres.Wrapf(err, "reading the switches for maintenance")
	}
	w.store(slices.Contains(on, string(Push)), slices.Contains(on, string(Pop)))
	return nil
}

func (w *Watcher) store(push, pop bool) {
	w.mu.Lock()
	changed := !w.loaded || push != (w.pushEnded != nil) || pop != (w.popEnded != nil)
	w.loaded = true
	turn(&w.pushEnded, push)
	turn(&w.popEnded, pop)
	w.mu.Unlock()
	if changed {
		w.OnChange(push, pop)
	}
}

// turn sets *ended to a new channel if on is true. Otherwise it closes the channel and sets *ended
// to nil.
func turn(ended *chan struct{}, on bool) {
	switch {
	case on && *ended == nil:
		*ended = make(chan struct{})
	case !on && *ended != nil:
		close(*ended)
		*ended = nil
	}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/inbox"
	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/pkg/migrate"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
	"github.com/belfry-mq/belfry/pkg/stats"
	"github.com/belfry-mq/belfry/pkg/store"
	"github.com/belfry-mq/belfry/pkg/sweep"
	"github.com/belfry-mq/belfry/pkg/trace"
)

// warmConnections stay open while nothing happens, so that the first request
// after a pause does not wait for one.
const warmConnections = 2

// drainTimeout bounds the last flushes of a stop; each is bounded by itself, so
// it is only reached when the database has gone.
const drainTimeout = 15 * time.Second

// Run serves until ctx ends, then stops in order and returns nil. ready is
// called once requests are answered, with the address. An error means that the
// server could not start, or that a part of it failed; everything is released.
func Run(ctx context.Context, cfg config.Config, log *zap.Logger, ready func(addr net.Addr)) error {
	defer holdHeap()()
	pool, err := postgres.Open(ctx, cfg.Database, "belfry", warmConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Wait(ctx, cfg.Database.StartTimeout, log); err != nil {
		return ended(ctx, err)
	}
	if err := prepareSchema(ctx, cfg.Database, log); err != nil {
		return ended(ctx, err)
	}
	if err := advanceIDs(ctx, pool, log); err != nil {
		return ended(ctx, err)
	}
	p, err := build(ctx, cfg, pool, log)
	if err != nil {
		return err
	}
	defer p.close()
	ln, err := p.server.Listen(ctx)
	if err != nil {
		return err
	}
	return p.run(ctx, ln, log, ready)
}

// parts are the rooms of a running server.
type parts struct {
	verbs      *store.Store
	operator   *catalog.Catalog
	sweeper    *sweep.Sweeper
	sequencer  *inbox.Sequencer
	dispatcher *dispatch.Dispatcher
	listener   *listen.Listener
	sender     *listen.Sender
	server     *httpapi.Server
	close      func()
}

func build(ctx context.Context, cfg config.Config, pool *postgres.Pool, log *zap.Logger) (*parts, error) {
	sealer, err := seal.New(cfg.Encryption)
	if err != nil {
		return nil, err
	}
	p := &parts{close: func() {}}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.verbs = store.New(pool, store.Config{Defaults: cfg.Defaults, Sealer: sealer, Batch: cfg.Batch}, store.NewMetrics(reg), log)
	p.operator = catalog.New(pool, log)
	if cfg.Dispatch.UsePriorityDispatch {
		urgentConfig := cfg.Database
		urgentConfig.PoolSize = int32(min(cfg.Dispatch.PollWorkers+1, 1000))
		urgent, err := postgres.Open(ctx, urgentConfig, "belfry-dispatch", urgentConfig.PoolSize)
		if err != nil {
			return nil, err
		}
		p.close = urgent.Close
		urgent.ForwardLossesTo(pool) // what is claimed there may owe a wake as well
		p.verbs.Prioritise(urgent.Pool)
	}
	p.sender, err = listen.NewSender(cfg.Database.DirectURL(), queue.NewID(), cfg.Listen, log)
	if err != nil {
		p.close()
		return nil, err
	}
	p.sender.OnReadOnly(pool.RetireConnections)
	peers := &others{sender: p.sender}
	p.dispatcher = dispatch.New(p.verbs, peers, cfg.Dispatch, cfg.SmartPoll, dispatch.NewMetrics(reg), log)
	if err := p.openInbox(ctx, cfg, pool, peers.Proven, reg, log); err != nil {
		p.close()
		return nil, err
	}
	local := news{p.dispatcher, p.verbs, p.sequencer}
	p.listener, err = listen.NewListener(cfg.Database.DirectURL(), p.sender, cfg.Listen, listen.Callbacks{
		OnMessage: local.hear,
		OnResync: func(reason string) {
			// Whoever fell silent may have died between a commit and its wake.
			pool.SignalLoss()
			local.Doubt(reason)
		},
		OnState: func(state listen.State) {
			// Those who sleep long because we were proven must sleep less now.
			local.Doubt("the listener is " + string(state))
		},
		OnInbox: p.sequencer.Wake,
		SQLWaiters:  p.dispatcher,
	}, log)
	if err != nil {
		p.close()
		return nil, err
	}
	peers.listener = p.listener
	p.verbs.Announce(storeNews{p.dispatcher, p.sequencer, peers})
	operator := operatorNews{local, peers}
	p.operator.Announce(operator)
	p.sweeper = sweep.New(pool, cfg.Sweep, operator, sweep.NewMetrics(reg), log)
	letters := deadletter.New(pool, sealer, log)
	letters.Announce(local)
	observe(reg, pool, p.verbs, peers)
	reg.MustRegister(newLateness(p.operator.Lateness))
	p.server = httpapi.New(cfg.HTTP, httpapi.Deps{
		Verbs: p.verbs, Popper: p.dispatcher, Catalog: p.operator, GroupVerbs: p.operator, GroupReader: stats.NewGroups(pool),
		Resources: stats.New(pool), Letters: letters, Traces: trace.New(pool, sealer, hostname()), Ping: pool.Ping, Listener: peers.state, Inbox: p.inboxState,
		Metrics: httpapi.NewMetrics(reg), Defaults: cfg.Defaults, Version: version(), Log: log,
	})
	return p, nil
}

// run starts the background work and serves, and stops all of it in order.
func (p *parts) run(ctx context.Context, ln net.Listener, log *zap.Logger, ready func(addr net.Addr)) error {
	// Background work outlives ctx: it ends after the last request.
	background, endBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer endBackground()
	// The listener and the sender outlive the work whose commits they report.
	telling, endTelling := context.WithCancel(context.WithoutCancel(ctx))
	defer endTelling()
	work, workFailed := errgroup.WithContext(background)
	work.Go(func() error { return p.verbs.Run(workFailed) })
	work.Go(func() error { return p.operator.Run(workFailed) })
	work.Go(func() error { return p.sweeper.Run(workFailed) })
	work.Go(func() error { return p.sequencer.Run(workFailed) })
	work.Go(func() error { return p.dispatcher.Run(workFailed) })
	work.Go(func() error { return p.server.Serve(ln) })
	tell, tellFailed := errgroup.WithContext(telling)
	tell.Go(func() error { return p.listener.Run(tellFailed) })
	tell.Go(func() error { return p.sender.Run(tellFailed) })
	log.Info("serving", zap.String("address", ln.Addr().String()), zap.String("version", version()))
	ready(ln.Addr())

	select {
	case <-ctx.Done():
		log.Info("stopping", zap.Int("waiting", p.dispatcher.Waiting()))
	case <-workFailed.Done():
		log.Error("a part of the server failed; stopping")
	case <-tellFailed.Done():
		log.Error("the listener or the sender failed; stopping")
	}
	p.server.Drain()
	p.dispatcher.Stop()
	stopping := errors.Join(p.server.Shutdown(context.WithoutCancel(ctx)), p.drain(ctx))
	endBackground()
	worked := work.Wait()
	endTelling()
	if err := errors.Join(worked, tell.Wait(), stopping); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// drain answers what group commit has accepted.
func (p *parts) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return p.verbs.Close(ctx)
}

// observe registers what is read off the pool, the store and the listener.
func observe(reg *prometheus.Registry, pool *postgres.Pool, verbs *store.Store, peers *others) {
	gauge := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
	}
	gauge("belfry_pool_connections", "Connections of the pool.", func() float64 { return float64(pool.Stat().TotalConns()) })
	gauge("belfry_pool_acquired", "Connections in use.", func() float64 { return float64(pool.Stat().AcquiredConns()) })
	counter("belfry_heals_total", "Looks for partitions that a crash left asleep.", func() float64 {
		passes, _ := verbs.Heals()
		return float64(passes)
	})
	counter("belfry_healed_partitions_total", "Partitions that a crash had left asleep, and that were woken.", func() float64 {
		_, partitions := verbs.Heals()
		return float64(partitions)
	})
	gauge("belfry_listener_proven", "1 while the listener has proven that it hears.", func() float64 {
		if peers.Proven() {
			return 1
		}
		return 0
	})
	gauge("belfry_listener_seconds_since_proof", "Seconds since the listener last proved itself.",
		func() float64 { return peers.state().Proof.Seconds() })
	gauge("belfry_listener_peers", "Other instances heard.", func() float64 { return float64(peers.state().Peers) })
	counter("belfry_listener_reconnects_total", "Reconnects of the listener.",
		func() float64 { return float64(peers.listener.Reconnects()) })
	counter("belfry_notify_flushes_total", "Notifying commits.", func() float64 { return float64(peers.sender.Stats().Flushes) })
	counter("belfry_notify_failures_total", "Notifying commits that failed.", func() float64 { return float64(peers.sender.Stats().Failures) })
	counter("belfry_notify_entries_in_total", "Announcements given to the sender.",
		func() float64 { return float64(peers.sender.Stats().EntriesIn) })
	counter("belfry_notify_entries_out_total", "Announcements sent after coalescing.",
		func() float64 { return float64(peers.sender.Stats().EntriesOut) })
}

// prepareSchema migrates, or only checks when that was switched off.
func prepareSchema(ctx context.Context, cfg postgres.Config, log *zap.Logger) error {
	m := migrate.New(migrate.Config{URL: cfg.DirectURL(), LockTimeout: cfg.MigrateLockTimeout}, log)
	if cfg.MigrateOnStart {
		return m.Up(ctx)
	}
	if err := m.Check(ctx); err != nil {
		return fmt.Errorf("checking the schema (database.migrate_on_start is off): %w", err)
	}
	return nil
}

// advanceIDs sees to it that no id is given away twice. A connection may break
// meanwhile, as anywhere else.
func advanceIDs(ctx context.Context, pool *postgres.Pool, log *zap.Logger) error {
	for tries := 1; ; tries++ {
		bounded, cancel := pool.Bounded(ctx)
		err := inbox.AdvanceIDs(bounded, pool, log)
		cancel()
		if !postgres.Retryable(err) || tries == 5 || ctx.Err() != nil {
			return err
		}
		log.Info("looking once more whether ids would be given away again", zap.Error(err))
	}
}

// ended turns an error caused by being asked to stop into none.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// hostname names this instance in what it stores.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

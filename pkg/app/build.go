package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/inbox"
	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
	"github.com/belfry-mq/belfry/pkg/stats"
	"github.com/belfry-mq/belfry/pkg/store"
	"github.com/belfry-mq/belfry/pkg/sweep"
	"github.com/belfry-mq/belfry/pkg/trace"
)

// maxUrgentConnections bounds the connections for woken pops.
const maxUrgentConnections = 1000

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
	pools      []*postgres.Pool
}

// close closes the pools that build opened.
func (p *parts) close() {
	for _, pool := range p.pools {
		pool.Close()
	}
}

// open opens one more pool. A connection of it that breaks may owe a wake, so the pool reports
// broken connections to the main one.
func (p *parts) open(ctx context.Context, cfg postgres.Config, name string, warm int32, main *postgres.Pool) (*postgres.Pool, error) {
	pool, err := postgres.Open(ctx, cfg, name, warm)
	if err != nil {
		return nil, err
	}
	pool.ForwardLossesTo(main)
	p.pools = append(p.pools, pool)
	return pool, nil
}

// build constructs every room, each with what it needs. Handlers of the bus are called in the order
// of construction: the store lowers its scan floors before the dispatcher wakes anybody, and the
// other instances hear last.
func build(ctx context.Context, cfg config.Config, pool *postgres.Pool, log *zap.Logger) (*parts, error) {
	p := &parts{}
	if err := p.build(ctx, cfg, pool, log); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *parts) build(ctx context.Context, cfg config.Config, pool *postgres.Pool, log *zap.Logger) error {
	sealer, err := seal.New(cfg.Encryption)
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	bus := &events.Bus{}
	dispatchMetrics := dispatch.NewMetrics(reg)
	intents := dispatch.NewIntents(dispatchMetrics)

	storeConfig := store.Config{
		Defaults: cfg.Defaults, Sealer: sealer, Batch: cfg.Batch, Events: bus, Handoffs: intents,
	}
	if cfg.Dispatch.UsePriorityDispatch {
		urgentConfig := cfg.Database
		urgentConfig.PoolSize = int32(min(cfg.Dispatch.PollWorkers+1, maxUrgentConnections))
		urgent, err := p.open(ctx, urgentConfig, "belfry-dispatch", urgentConfig.PoolSize, pool)
		if err != nil {
			return err
		}
		storeConfig.Urgent = urgent.Pool
	}
	p.verbs = store.New(pool, storeConfig, store.NewMetrics(reg), log)
	if err := p.buildListener(cfg, bus, pool, log); err != nil {
		return err
	}
	p.dispatcher = dispatch.New(dispatch.Deps{
		Store: p.verbs, Intents: intents, Events: bus, Proven: p.listener.Proven, Metrics: dispatchMetrics, Log: log,
	}, cfg.Dispatch, cfg.SmartPoll)
	direct := cfg.Database
	direct.URL, direct.PoolSize = cfg.Database.DirectURL(), inbox.Connections
	own, err := p.open(ctx, direct, "belfry-inbox", 0, pool)
	if err != nil {
		return err
	}
	p.sequencer = inbox.New(inbox.Deps{
		Pool: pool, Own: own, Appender: p.verbs, Events: bus, Proven: p.listener.Proven, Metrics: inbox.NewMetrics(reg), Log: log,
	}, inbox.Config{
		MaxPayload:       cfg.HTTP.MaxBodyBytes,
		FallbackInterval: cfg.Dispatch.FallbackInterval, PollInterval: cfg.Dispatch.MaxPollInterval,
	})
	bus.Subscribe(outbound{sender: p.sender})

	p.operator = catalog.New(pool, bus, log)
	p.sweeper = sweep.New(pool, cfg.Sweep, bus, sweep.NewMetrics(reg), log)
	registerGauges(reg, pool, p)
	reg.MustRegister(newLateness(p.operator.Lateness), newInboxCounts(p.sequencer.Counts))
	p.server = httpapi.New(cfg.HTTP, httpapi.Deps{
		Verbs: p.verbs, Popper: p.dispatcher, Catalog: p.operator, GroupVerbs: p.operator,
		GroupReader: stats.NewGroups(pool), Resources: stats.New(pool),
		Letters: deadletter.New(pool, sealer, bus, log), Traces: trace.New(pool, sealer, hostname()),
		Ping: pool.Ping, Listener: func() httpapi.ListenerState { return listenerState(p.listener) }, Inbox: p.inboxState,
		Metrics: httpapi.NewMetrics(reg), Defaults: cfg.Defaults, Version: version(), Log: log,
	})
	return nil
}

// buildListener constructs the two directions to the other instances.
func (p *parts) buildListener(cfg config.Config, bus *events.Bus, pool *postgres.Pool, log *zap.Logger) error {
	var err error
	if p.sender, err = listen.NewSender(cfg.Database.DirectURL(), queue.NewID(), cfg.Listen, log); err != nil {
		return err
	}
	p.sender.OnReadOnly(pool.RetireConnections)
	p.listener, err = listen.NewListener(cfg.Database.DirectURL(), p.sender, cfg.Listen, inbound{bus, pool}.callbacks(), log)
	return err
}

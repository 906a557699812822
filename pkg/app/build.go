package app

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/provider"
	"github.com/belfry-mq/belfry/pkg/access/rights"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/dispatch/sqlwait"
	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/engine/limit"
	"github.com/belfry-mq/belfry/pkg/engine/maintenance"
	"github.com/belfry-mq/belfry/pkg/engine/redrivejob"
	"github.com/belfry-mq/belfry/pkg/engine/schedule"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/engine/stream"
	"github.com/belfry-mq/belfry/pkg/engine/sweep"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/process/tracing"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxUrgentConnections is the maximum number of connections for woken pops.
const maxUrgentConnections = 1000

// parts are the packages of a running server.
type parts struct {
	instance   queue.ID
	verbs      *store.Store
	operator   *catalog.Catalog
	sweeper    *sweep.Sweeper
	sequencer  *inbox.Sequencer
	dispatcher *dispatch.Dispatcher
	sqlWaiters *sqlwait.Watcher
	listener   *listen.Listener
	sender     *listen.Sender
	hub        *live.Hub
	// writer is nil if history.enabled is false.
	writer *history.Writer
	server *httpapi.Server
	// dashboard is nil if dashboard.enabled is false.
	dashboard *dashboard.Dashboard
	// api has the dependencies of the API, which the server uses after the API has opened.
	api        httpapi.Deps
	drainDelay time.Duration
	// runs are further background work.
	runs []func(context.Context) error
	// closers release what build opened.
	closers []func()
}

// close releases what build opened.
func (p *parts) close() {
	for _, release := range p.closers {
		release()
	}
}

// builder holds what most packages need.
type builder struct {
	*parts
	cfg  config.Config
	pool *postgres.Pool
	bus  *events.Bus
	reg  *prometheus.Registry
	log  *zap.Logger
	// counts record what this instance does, for the history.
	counts *history.Recorder
	// changes tell the dashboard that its figures may have changed.
	changes *source.Changes
	// totals count the messages of all queues and groups when somebody looks.
	totals *totals.Counter
	// tracer makes spans. It is nil if traces are off.
	tracer *tracing.Tracer
	// startUntil is the end of database.start_timeout.
	startUntil time.Time
	// addr is where the server listens.
	addr net.Addr
}

// warn logs settings that are valid and contradict each other.
func warn(cfg *config.Config, log *zap.Logger) {
	if !cfg.Auth.Enabled && (cfg.Auth.Secret != "" || cfg.Auth.PublicKey != "" || cfg.Auth.JWKSURL != "") {
		log.Warn("keys for tokens are configured, but auth.enabled is false: every request may do everything")
	}
	if cfg.HTTP.MaxConnections <= cfg.Dispatch.MostRequests() {
		log.Warn("http.max_connections is not above 1.1 times dispatch.max_intentions: waiting and refused pops can take every connection, and pushes get 503",
			zap.Int("http.max_connections", cfg.HTTP.MaxConnections), zap.Int("dispatch.max_intentions", cfg.Dispatch.MaxIntentions))
	}
}

// newBuilder returns a builder without packages. The caller closes it.
func newBuilder(cfg config.Config, pool *postgres.Pool, server *httpapi.Server, reg *prometheus.Registry, log *zap.Logger) builder {
	return builder{
		parts: &parts{server: server, drainDelay: cfg.HTTP.DrainDelay}, totals: totals.New(pool, cfg.Problems.LateAfter),
		cfg: cfg, pool: pool, bus: &events.Bus{}, reg: reg, log: log, startUntil: time.Now().Add(cfg.Database.StartTimeout),
	}
}

// build constructs every package, each with its dependencies.
//
// The bus calls its handlers in the order of construction. So the store resets its scan floors before
// the dispatcher wakes a request, and the other instances are notified last.
func (b builder) build(ctx context.Context) error {
	warn(&b.cfg, b.log)
	b.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	sealer, err := seal.New(b.cfg.Encryption)
	if err != nil {
		return err
	}
	dispatchMetrics := dispatch.NewMetrics(b.reg)
	intents := dispatch.NewIntents(dispatchMetrics)
	urgent, err := b.openUrgent(ctx)
	if err != nil {
		return err
	}
	storeMetrics := store.NewMetrics(b.reg)
	b.verbs = store.New(b.pool, store.Config{
		Defaults: b.cfg.Defaults, Sealer: sealer, Batch: b.cfg.Batch, Events: b.bus, Handoffs: intents, Urgent: urgent,
		MaxPopBytes: b.cfg.HTTP.MaxResponseBytes, Instance: hostname() + ":" + strconv.Itoa(portOf(b.addr)),
	}, storeMetrics, b.log)
	if err := b.buildListener(); err != nil {
		return err
	}
	switches, err := b.buildSwitches(ctx)
	if err != nil {
		return err
	}
	auth, signIn, err := b.authenticator(ctx)
	if err != nil {
		return err
	}
	b.buildWaiters(intents, dispatchMetrics, switches.PopPaused, auth)
	b.buildHistory()
	if err := b.buildSequencer(ctx); err != nil {
		return err
	}
	b.bus.Subscribe(b.sender)
	pushes := spool.New(b.cfg.Spool, spool.Deps{
		Pusher: b.verbs, Paused: switches.PushPaused, Pool: b.pool, Host: hostname(), Sealer: sealer, Metrics: spool.NewMetrics(b.reg), Log: b.log,
	})
	b.closers = append(b.closers, pushes.Close)
	b.runs = append(b.runs, pushes.Run)

	b.operator = catalog.New(b.pool, sealer, b.bus, b.log)
	b.buildSweeper()
	letters := deadletter.New(b.pool, sealer, b.bus, b.log)
	past := history.NewReader(b.pool, b.writer, b.hub.Unwritten)
	limits := limit.NewStore(b.pool, b.bus)
	b.registerMetrics(limits)
	all, groups := stats.New(b.pool), stats.NewGroups(b.pool)
	b.api = httpapi.Deps{
		Auth: auth, Rights: rights.New(b.pool, b.cfg.Auth), Pusher: pushes, Spool: pushes, Verbs: b.verbs, Popper: b.dispatcher, Catalog: b.operator, GroupWriter: b.operator,

		GroupReader: groups, Progress: groups, Partitions: groups, Resources: all, Queues: all, Tags: all, Live: all, Totals: b.totals,
		Problems: problem.New(b.pool, b.cfg.Problems), History: past, Recent: past, Pool: b.connections,
		DeadLetters: letters, Jobs: b.buildJobs(letters), Schedules: schedule.NewStore(b.pool), Limits: limits, Breakers: limits, MessageStates: all, Traces: trace.New(b.pool, sealer, hostname()),
		Audit: audit.NewLog(b.pool, b.log), Texts: b.pool, Confirm: b.pool.Confirm, Owners: owners{catalog.NewOwners(b.pool), b.verbs}, Streams: stream.New(b.pool), MaxQueueMetrics: b.cfg.Metrics.MaxQueues, Switches: switches, Explainer: explain.New(b.pool, b.cfg.Retention.Completed), Doctor: b.doctor(sealer, pushes),
		Attachments: attach.NewLister(b.pool), Rejections: inbox.NewRejections(b.pool),
		Events: b.hub, Listener: b.listenerState, Inbox: b.inboxState, Flushes: storeMetrics.Flushes, Defaults: b.cfg.Defaults,
	}
	return b.buildDashboard(auth, signIn)
}

// registerMetrics registers the metrics that a scrape reads.
func (b builder) registerMetrics(limits *limit.Store) {
	registerGauges(b.reg, b.pool, b.parts, b.log)
	b.reg.MustRegister(lateness(b.operator.Lateness, b.cfg.Problems.LateAfter), inboxCounts(b.sequencer.Counts), scheduleCounts(schedule.NewStore(b.pool).Counts),
		openBreakers(limits.OpenBreakers))
}

// buildSchedules makes the runner of schedules.
func (b builder) buildSchedules() {
	schedules := schedule.New(schedule.Deps{
		Pool: b.pool, Events: b.bus, Instance: b.instance, Peers: b.listener.PeerIDs, Proven: b.listener.Proven,
		Handled: b.changes.Changed, Metrics: schedule.NewMetrics(b.reg), Tracer: b.tracer, Log: b.log,
	}, schedule.Config{FallbackInterval: b.cfg.Dispatch.FallbackInterval, PollInterval: b.cfg.Dispatch.MaxPollInterval})
	b.runs = append(b.runs, schedules.Run)
}

// buildJobs makes the redrive jobs.
func (b builder) buildJobs(letters *deadletter.Letters) *redrivejob.Jobs {
	jobs := redrivejob.New(b.pool, letters, hostname(), b.log)
	b.bus.Subscribe(jobs)
	b.runs = append(b.runs, jobs.Run)
	return jobs
}

// owners finds the queues of the objects that a request names by an id.
type owners struct {
	*catalog.Owners
	*store.Store
}

// buildSweeper makes the sweeper, and logs what it deletes by default.
func (b builder) buildSweeper() {
	cfg := b.cfg.Sweep
	cfg.CompletedRetention, cfg.DeadLetterRetention = b.cfg.Retention.Completed, b.cfg.Retention.DeadLetters
	cfg.AuditRetention, cfg.HistoryRetention = b.cfg.Audit.Retention, b.cfg.History.Retention
	b.log.Info(b.cfg.Retention.String())
	b.sweeper = sweep.New(b.pool, cfg, b.bus, sweep.NewMetrics(b.reg, b.counts), b.log)
}

// authenticator returns the verifier of tokens, or nil if auth.enabled is false. It also returns the sign-in with an identity
// provider, or nil if auth.client_id is empty.
func (b builder) authenticator(ctx context.Context) (httpapi.Authenticator, dashboard.Provider, error) {
	if !b.cfg.Auth.Enabled {
		return nil, nil, nil
	}
	revocations := token.NewWatcher(b.pool, b.log)
	if err := b.retry(ctx, "reading the revoked tokens failed; it will be retried", func() error { return revocations.Load(ctx) }); err != nil {
		return nil, nil, err
	}
	b.bus.Subscribe(revocations)
	b.runs = append(b.runs, revocations.Run)
	verifier, err := token.New(ctx, b.cfg.Auth, revocations, b.log)
	if err != nil || b.cfg.Auth.ClientID == "" {
		return verifier, nil, err
	}
	signIn, err := provider.New(b.cfg.Auth, verifier, b.log)
	return verifier, signIn, err
}

// buildSwitches constructs the watcher of the maintenance switches, which pause pushes and pops.
func (b builder) buildSwitches(ctx context.Context) (*maintenance.Watcher, error) {
	switches := maintenance.NewWatcher(b.pool, b.log)
	switches.OnChange = b.hub.MaintenanceChanged
	err := b.retry(ctx, "reading the switches for maintenance failed; it will be retried", func() error { return switches.Load(ctx) })
	if err != nil {
		return nil, err
	}
	b.bus.Subscribe(switches)
	b.runs = append(b.runs, switches.Run)
	return switches, nil
}

// buildListener constructs the listener and the sender, which connect this instance to the others.
func (b builder) buildListener() (err error) {
	url := b.cfg.Database.DirectURL().Reveal()
	b.instance = queue.NewID()
	if b.sender, err = listen.NewSender(url, b.instance, b.cfg.Listen, b.pool.RetireConnections, b.log); err != nil {
		return err
	}
	b.sender.QueueOf = b.verbs.QueueOf
	b.buildHub()
	in := inboundEvents{bus: b.bus, reportLostWake: b.pool.SignalLoss, doubtConnections: b.pool.DoubtConnections, groupsOf: b.verbs.GroupsOf, hub: b.hub}
	b.listener, err = listen.NewListener(url, b.sender, b.cfg.Listen, in.callbacks(), b.log)
	return err
}

// buildWaiters constructs the dispatcher of waiting requests and the watcher of SQL waiters.
func (b builder) buildWaiters(intents *dispatch.Intents, metrics *dispatch.Metrics, paused func() <-chan struct{}, auth httpapi.Authenticator) {
	tracker := readiness.New(b.cfg.Dispatch.FallbackInterval)
	b.closers = append(b.closers, tracker.Close)
	deps := dispatch.Deps{
		Store: b.verbs, Intents: intents, Readiness: tracker, Events: b.bus, Proven: b.listener.Proven, Paused: paused, Metrics: metrics, Log: b.log,
	}
	if auth != nil {
		deps.NextRevocation = auth.NextRevocation
	}
	b.dispatcher = dispatch.New(deps, b.cfg.Dispatch, b.cfg.SmartPoll)
	b.sqlWaiters = sqlwait.New(sqlwait.Deps{
		Store: b.verbs, Readiness: tracker, Events: b.bus, Proven: b.listener.Proven, Registerer: b.reg, Log: b.log,
	}, sqlwait.Config{Fallback: b.cfg.Dispatch.Fallback(), Backoff: b.cfg.Dispatch.Backoff()})
}

// buildSequencer constructs the sequencer, with a pool for its long transactions, and the runner of schedules, which fills the
// inbox.
func (b builder) buildSequencer(ctx context.Context) error {
	direct := b.cfg.Database
	direct.URL, direct.PoolSize = b.cfg.Database.DirectURL(), inbox.Connections
	own, err := b.open(ctx, direct, "belfry-inbox", 0)
	if err != nil {
		return err
	}
	b.sequencer = inbox.New(inbox.Deps{
		Pool: b.pool, SequencerPool: own, Appender: b.verbs, Events: b.bus, Proven: b.listener.Proven, OnLeading: b.hub.SequencerChanged,
		Metrics: inbox.NewMetrics(b.reg), Log: b.log,
	}, inbox.Config{
		MaxPayload: b.cfg.HTTP.MaxBodyBytes, AllowAnyJSON: b.cfg.HTTP.AllowAnyJSON,
		FallbackInterval: b.cfg.Dispatch.FallbackInterval, PollInterval: b.cfg.Dispatch.MaxPollInterval,
	})
	b.buildSchedules()
	return nil
}

// openUrgent opens the pool for woken pops. It returns nil if dispatch.use_priority_dispatch is off.
func (b builder) openUrgent(ctx context.Context) (*pgxpool.Pool, error) {
	if !b.cfg.Dispatch.UsePriorityDispatch {
		return nil, nil
	}
	cfg := b.cfg.Database
	cfg.PoolSize = int32(min(b.cfg.Dispatch.PollWorkers+1, maxUrgentConnections))
	pool, err := b.open(ctx, cfg, "belfry-dispatch", cfg.PoolSize)
	if err != nil {
		return nil, err
	}
	return pool.Pool, nil
}

// open opens one more pool. Like the main pool, this pool reports each broken connection, because a wake may be lost with the
// connection.
func (b builder) open(ctx context.Context, cfg postgres.Config, name string, warm int32) (*postgres.Pool, error) {
	pool, err := b.pool.OpenRelated(ctx, cfg, name, warm)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, pool.Close)
	return pool, nil
}

// inboxState returns the state of the inbox for the status of the dispatcher.
func (p *parts) inboxState(ctx context.Context) (api.Inbox, error) {
	found, err := p.sequencer.Counts(ctx)
	if err != nil {
		return api.Inbox{}, err
	}
	holder, err := p.sequencer.Holder(ctx)
	return api.Inbox{
		Waiting: found.Waiting, Rejected: found.Rejected, OldestSeconds: found.Oldest.Seconds(), Sequencer: found.Leading, Holder: (*api.InboxHolder)(holder),
	}, err
}

// listenerState returns the state of the listener for the status of the dispatcher.
func (p *parts) listenerState() httpapi.ListenerState {
	state, proof := p.listener.State()
	return httpapi.ListenerState{
		Listener: api.Listener{
			State: string(state), SecondsSinceProof: proof.Seconds(), Reconnects: p.listener.Reconnects(), Peers: int64(p.listener.Peers()),
		},
		Instance: p.instance, Others: p.listener.PeerIDs(),
	}
}

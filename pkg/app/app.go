package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/pkg/process/tracing"
)

// warmConnections is how many connections stay open while idle, so that the first requests after a pause need not connect.
// Pushes, pops and acks at the same time use about this number of connections.
const warmConnections = 4

// proofPatience is the longest time for which the API stays closed because the listener is not proven yet (see docs/design.md).
// Behind a pooler in transaction mode the listener is never proven.
const proofPatience = time.Second

// The server tries each step of the start up to startTries times within database.start_timeout, and pauses for startPause between
// two tries. The attempt to connect for the migration gets at least leastConnect, even at the end of database.start_timeout.
const (
	startTries   = 5
	startPause   = 200 * time.Millisecond
	leastConnect = time.Second
)

// drainTimeout bounds the last flushes of a stop. Each flush has a timeout too, so the drain takes this long only if the database
// is down.
const drainTimeout = 15 * time.Second

// exportTimeout bounds the last export of spans and metrics.
const exportTimeout = 3 * time.Second

// Run serves until ctx ends, then stops in order and returns nil. Run listens at once. It answers requests with 503 until it
// calls ready with the address of the server. Run returns an error if the server could not start, or if a part of the server
// failed. In every case Run releases all resources.
func Run(ctx context.Context, cfg config.Config, log *zap.Logger, ready func(addr net.Addr)) error {
	defer holdHeap()()
	registry, counts := prometheus.NewRegistry(), history.NewRecorder(cfg.Metrics.MaxQueues)
	telemetry, err := tracing.Start(ctx, tracing.Deps{Getenv: os.Getenv, Metrics: registry, Version: Version(), Log: log})
	if err != nil {
		return err
	}
	defer closeTelemetry(ctx, telemetry, log)
	cfg.Database.Tracer = telemetry.Statements
	pool, err := postgres.Open(ctx, cfg.Database, "belfry", warmConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	pinger, err := postgres.NewPinger(cfg.Database, "belfry-health")
	if err != nil {
		return err
	}
	defer pinger.Close()
	changes := &source.Changes{}
	counts.OnCount = changes.Changed
	server := httpapi.New(cfg.HTTP, httpapi.StartDeps{
		Ping: pinger.Ping, Metrics: httpapi.NewMetrics(registry, counts), Version: Version(), Tracer: telemetry.Tracer, Log: log,
	})
	ln, err := server.Listen(ctx)
	if err != nil {
		return err
	}
	logAddresses(log, ln, cfg.HTTP.HasTLS())
	warnOpen(log, ln.Addr(), cfg)
	var serving errgroup.Group
	serving.Go(func() error { return server.Serve(ln) })
	b := newBuilder(cfg, pool, server, registry, log)
	b.counts, b.changes, b.addr, b.tracer = counts, changes, ln.Addr(), telemetry.Tracer
	defer b.close()
	if err := b.start(ctx); err != nil {
		asking, cancel := pool.Bounded(ctx)
		err = postgres.Explain(asking, pool, err)
		cancel()
		return errors.Join(ended(ctx, err), server.Shutdown(context.WithoutCancel(ctx)), serving.Wait())
	}
	return b.run(ctx, serving.Wait, log, func() { ready(ln.Addr()) })
}

// closeTelemetry exports the last spans and metrics, after everything else has stopped.
func closeTelemetry(ctx context.Context, telemetry *tracing.Telemetry, log *zap.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
	defer cancel()
	if err := telemetry.Close(ctx); err != nil {
		log.Warn("the last spans or metrics were not exported", zap.Error(err))
	}
}

// logAddresses logs where the server listens.
func logAddresses(log *zap.Logger, ln httpapi.Listeners, tls bool) {
	fields := []zap.Field{zap.Stringer("address", ln.Addr()), zap.Bool("tls", tls)}
	if ln.Internal != nil {
		fields = append(fields, zap.Stringer("internal_address", ln.Internal.Addr()))
	}
	log.Info("listening", fields...)
}

// warnOpen logs a warning if requests need no token on a port that other machines may reach.
func warnOpen(log *zap.Logger, addr net.Addr, cfg config.Config) {
	tcp, err := net.ResolveTCPAddr("tcp", addr.String())
	if err == nil && !tcp.IP.IsLoopback() && !authenticated(cfg) {
		log.Warn(fmt.Sprintf("everybody who reaches %s may read, change and delete everything: set auth.enabled and a key (docs/security.md), "+
			"or listen on this machine only with --http-addr 127.0.0.1:%d", addr, tcp.Port))
	}
}

// authenticated reports whether each request needs a token or a client certificate.
func authenticated(cfg config.Config) bool {
	return cfg.Auth.Enabled || cfg.HTTP.TLSClientCAFile != "" && cfg.HTTP.TLSClientAuth == "required"
}

// start waits for the database, migrates and constructs the packages.
func (b builder) start(ctx context.Context) error {
	err := b.retry(ctx, "preparing the database failed; it will be retried", func() error {
		if err := b.pool.Wait(ctx, time.Until(b.startUntil), b.log); err != nil {
			return err
		}
		b.server.SetPhase(httpapi.Migrating)
		if err := prepareSchema(ctx, b.cfg.Database, max(time.Until(b.startUntil), leastConnect), b.log); err != nil {
			return err
		}
		bounded, cancel := b.pool.Bounded(ctx)
		defer cancel()
		return postgres.CheckRights(bounded, b.pool)
	})
	if err != nil {
		return err
	}
	b.server.SetPhase(httpapi.Starting)
	err = b.retry(ctx, "advancing the ids failed; it will be retried", func() error {
		return advanceIDs(ctx, b.pool, b.log)
	})
	if err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	b.trace()
	return nil
}

// retry repeats a step of the start if a connection to the database breaks.
func (b builder) retry(ctx context.Context, failed string, step func() error) error {
	for tries := 1; ; tries++ {
		err := step()
		if !postgres.Retryable(err) || tries == startTries || ctx.Err() != nil || time.Until(b.startUntil) <= startPause {
			return err
		}
		b.log.Info(failed, zap.Error(err))
		select {
		case <-ctx.Done():
		case <-time.After(startPause):
		}
	}
}

// run starts the background work and opens the API. When ctx ends or a part fails, it stops everything in order. serve returns
// when the server has stopped.
func (p *parts) run(ctx context.Context, serve func() error, log *zap.Logger, ready func()) error {
	// Background work outlives ctx: it ends after the last request.
	background, endBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer endBackground()
	// The listener and the sender outlive the background work whose commits they report.
	peers, endPeers := context.WithCancel(context.WithoutCancel(ctx))
	defer endPeers()
	work, workFailed := errgroup.WithContext(background)
	sqlWaiting, endSQLWaiting := context.WithCancel(workFailed)
	defer endSQLWaiting()
	for _, run := range append([]func(context.Context) error{
		p.verbs.Run, p.operator.Run, p.sweeper.Run, p.sequencer.Run, p.dispatcher.Run,
	}, p.runs...) {
		work.Go(func() error { return run(workFailed) })
	}
	work.Go(func() error { return p.sqlWaiters.Run(sqlWaiting) })
	work.Go(serve)
	peerWork, peersFailed := errgroup.WithContext(peers)
	peerWork.Go(func() error { return p.listener.Run(peersFailed) })
	peerWork.Go(func() error { return p.sender.Run(peersFailed) })
	p.warm(ctx, log)
	p.server.Open(p.api)
	log.Info("serving", zap.String("version", Version()))
	ready()

	var delay time.Duration
	select {
	case <-ctx.Done():
		delay = p.drainDelay
		log.Info("stopping", zap.Int("waiting", p.dispatcher.Waiting()), zap.Duration("drain_delay", delay))
	case <-workFailed.Done():
		log.Error("a part of the server failed; stopping")
	case <-peersFailed.Done():
		log.Error("the listener or the sender failed; stopping")
	}
	p.server.Drain()
	select {
	case <-time.After(delay): // load balancers send no new requests
	case <-workFailed.Done():
	case <-peersFailed.Done():
	}
	p.hub.Stop()
	p.server.EndStreams() // the streams must end before the dispatcher ends their waiting pops
	p.dispatcher.Stop()
	if p.dashboard != nil {
		p.dashboard.Close()
	}
	endSQLWaiting()
	stopping := errors.Join(p.server.Shutdown(context.WithoutCancel(ctx)), p.drain(ctx))
	endBackground()
	worked := work.Wait()
	endPeers()
	if err := errors.Join(worked, peerWork.Wait(), stopping); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// warm prepares the connections to the database, and waits until the listener is proven, so that waiting requests need not poll.
// So the first requests are as fast as later requests. If warm fails, the first requests are only slower, so warm logs the
// failure.
func (p *parts) warm(ctx context.Context, log *zap.Logger) {
	began := time.Now()
	if err := p.verbs.Warm(ctx); err != nil {
		log.Warn("the connections to the database were not prepared; the first requests take longer", zap.Error(err))
	}
	select {
	case <-p.listener.Decided():
	case <-time.After(proofPatience - time.Since(began)):
	case <-ctx.Done():
	}
	log.Debug("prepared for the first requests", zap.Duration("took", time.Since(began)))
}

// drain flushes and answers the calls that group commit has accepted.
func (p *parts) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return p.verbs.Close(ctx)
}

// prepareSchema migrates, or only checks the schema if database.migrate_on_start is off.
func prepareSchema(ctx context.Context, cfg postgres.Config, connectTimeout time.Duration, log *zap.Logger) error {
	m := migrate.New(migrate.Config{URL: cfg.DirectURL().Reveal(), ConnectTimeout: connectTimeout, LockTimeout: cfg.MigrateLockTimeout}, log)
	if cfg.MigrateOnStart {
		return m.Up(ctx)
	}
	if err := m.Check(ctx); err != nil {
		return fmt.Errorf("checking the schema (database.migrate_on_start is off): %w", err)
	}
	return nil
}

// advanceIDs moves the id sequences past the ids in use, so that no id is assigned twice.
func advanceIDs(ctx context.Context, pool *postgres.Pool, log *zap.Logger) error {
	ctx, cancel := pool.Bounded(ctx)
	defer cancel()
	return inbox.AdvanceIDs(ctx, pool, log)
}

// ended returns nil if ctx has ended. Otherwise it returns err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// hostname returns the name of this instance in the traces that it stores.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// heapFloor is the size of a block that makes garbage collections rarer. By default, the program may then allocate heapFloor more
// bytes between two collections. Without this block, a server with a heap of a few megabytes collects many times a second under
// load, and takes CPU time from Postgres.
const heapFloor = 32 << 20

// holdHeap keeps a block of heapFloor bytes alive until release is called. The block is never written, so it costs address space
// and no memory. A memory limit (GOMEMLIMIT) still applies.
func holdHeap() (release func()) {
	block := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(block) }
}

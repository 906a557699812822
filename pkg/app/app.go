package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/inbox"
	"github.com/belfry-mq/belfry/pkg/migrate"
	"github.com/belfry-mq/belfry/pkg/postgres"
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

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/migrate"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/seal"
	"github.com/belfry-mq/belfry/pkg/store"
)

// Run serves until ctx ends, then stops in order and returns nil. ready is
// called once requests are answered, with the address. An error means that the
// server could not start, or that a part of it failed; everything is released.
func Run(ctx context.Context, cfg config.Config, log *zap.Logger, ready func(addr net.Addr)) error {
	pool, err := postgres.Open(ctx, cfg.Database, "belfry")
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

	sealer, err := seal.New(cfg.Encryption)
	if err != nil {
		return err
	}
	verbs := store.New(pool, cfg.Defaults, sealer, log)
	operator := catalog.New(pool, log)
	dispatcher := dispatch.New(verbs, cfg.Dispatch, log)
	server := httpapi.New(cfg.HTTP, httpapi.Deps{
		Verbs: verbs, Popper: dispatcher, Catalog: operator, Ping: pool.Ping,
		Defaults: cfg.Defaults, Version: version(), Log: log,
	})
	ln, err := server.Listen(ctx)
	if err != nil {
		return err
	}

	// Background work outlives ctx: it ends after the last request.
	background, endBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer endBackground()
	parts, failed := errgroup.WithContext(background)
	parts.Go(func() error { return verbs.Run(failed) })
	parts.Go(func() error { return operator.Run(failed) })
	parts.Go(func() error { return server.Serve(ln) })
	log.Info("serving", zap.String("address", ln.Addr().String()), zap.String("version", version()))
	ready(ln.Addr())

	select {
	case <-ctx.Done():
		log.Info("stopping", zap.Int("waiting", dispatcher.Waiting()))
	case <-failed.Done():
		log.Error("a part of the server failed; stopping")
	}
	server.Drain()
	dispatcher.Stop()
	stopping := server.Shutdown(context.WithoutCancel(ctx))
	endBackground()
	if err := errors.Join(parts.Wait(), stopping); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
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

// ended turns an error caused by being asked to stop into none.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

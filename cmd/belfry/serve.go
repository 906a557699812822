package main

import (
	"context"
	"errors"
	"net"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
)

const noDatabase = "no database is named: set --database-url, BELFRY_DATABASE_URL or PG_HOST"

var errNoDatabase = errors.New(noDatabase + ", or run `belfry dev`, which starts a private Postgres")

func newServeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the server until SIGINT or SIGTERM",
		Long: `Run the server on your Postgres database until SIGINT, SIGTERM or SIGHUP. Then the server
accepts no new requests, finishes the requests in flight and exits with 0. The server also
stops if the reader of its log closes the pipe (standard error). If the reader only
stalls, the server drops log lines and counts them in belfry_log_dropped_total.`,
		Example: `  belfry serve --database-url postgres://belfry@localhost:5432/belfry
  belfry serve --config /etc/belfry/belfry.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServerLogger(cmd, func(ctx context.Context, cfg config.Config, log *zap.Logger) error {
				if err := checkServe(ctx, cfg); err != nil {
					return err
				}
				if ignored := cfg.Ignored(); len(ignored) > 0 {
					log.Info("environment variables of Queen MQ were ignored", zap.Strings("variables", ignored))
				}
				if unknown := cfg.Unknown(); len(unknown) > 0 {
					log.Warn("unknown environment variables with the prefix BELFRY_ were ignored", zap.Strings("variables", unknown))
				}
				return serve(ctx, cfg, log)
			})
		},
	}
}

// serve runs the server until ctx ends. The service manager learns when the server is ready, and when it begins to stop.
func serve(ctx context.Context, cfg config.Config, log *zap.Logger) error {
	tell := func(state string) {
		if err := notifyManager(state); err != nil {
			log.Warn("the service manager was not told the state of the server", zap.String("state", state), zap.Error(err))
		}
	}
	told := make(chan struct{})
	running := context.AfterFunc(ctx, func() {
		defer close(told)
		tell(stateStopping)
	})
	err := app.Run(ctx, cfg, log, func(addr net.Addr) {
		log.Info("ready", zap.Stringer("addr", addr), zap.String("version", app.Version()))
		tell(stateReady)
	})
	if !running() {
		<-told
	}
	return err
}

// checkServe returns an error if `belfry serve` refuses the configuration before it connects to the database.
func checkServe(ctx context.Context, cfg config.Config) error {
	if cfg.Database.URL == "" {
		return errNoDatabase
	}
	return app.Check(ctx, cfg)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/devdb"
	"github.com/belfry-mq/belfry/pkg/migrate"
)

const (
	devDatabase = "belfry"
	// devStopTimeout bounds the orderly stop of Postgres.
	devStopTimeout = 30 * time.Second
	// spareConnections are left for psql and for Postgres itself beside the pool.
	spareConnections = 30
)

var errPostgresDied = errors.New("the private Postgres has died")

// devOptions are the flags of dev.
type devOptions struct {
	dataDir string
	pgPort  int
	fresh   bool
}

// runFunc is app.Run.
type runFunc func(ctx context.Context, cfg config.Config, log *zap.Logger, ready func(net.Addr)) error

func newDevCmd() *cobra.Command {
	var opts devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the server with a Postgres of its own",
		Long: `Run the server with a private Postgres, for development. The data is kept between
runs. Postgres is looked for in BELFRY_PG_BIN, on PATH and in the usual folders,
and downloaded once when the machine has none. It listens on 127.0.0.1 only and
asks no local user for a password.

Ctrl-C stops the server, then Postgres. A second one exits at once; the next run
tidies up.`,
		Example: `  belfry dev
  belfry dev --fresh --http-addr :7000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			log, err := newLogger(cfg)
			if err != nil {
				return err
			}
			// Standard error may be a terminal or a pipe, which cannot be synced.
			defer func() { _ = log.Sync() }()
			return dev(cmd.Context(), cmd.OutOrStdout(), cfg, log, opts, app.Run)
		},
	}
	cmd.Flags().StringVar(&opts.dataDir, "data-dir", "", "folder of the private Postgres (default: a place of yours, printed at start)")
	cmd.Flags().IntVar(&opts.pgPort, "pg-port", 0, "port of the private Postgres, 0 for a free one")
	cmd.Flags().BoolVar(&opts.fresh, "fresh", false, "remove the data of earlier runs first")
	return cmd
}

// dev starts Postgres, runs the server on it until ctx ends, and stops both.
// Being stopped is no error; Postgres or the server failing is one.
func dev(ctx context.Context, out io.Writer, cfg config.Config, log *zap.Logger, opts devOptions, run runFunc) error {
	cluster, err := startDevCluster(ctx, cfg, log, opts)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	err = runOnCluster(ctx, out, cfg, log, cluster, run)
	// ctx has usually ended by now, and Postgres still needs time to write out.
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), devStopTimeout)
	defer cancel()
	return errors.Join(err, cluster.Stop(stopping))
}

func startDevCluster(ctx context.Context, cfg config.Config, log *zap.Logger, opts devOptions) (*devdb.Cluster, error) {
	if opts.dataDir == "" {
		dir, err := devdb.DefaultDir()
		if err != nil {
			return nil, err
		}
		opts.dataDir = dir
	}
	if cfg.Database.URL != "" {
		log.Warn("database.url is set and not used: `belfry dev` brings its own Postgres; `belfry serve` uses yours")
	}
	return devdb.Start(ctx, devdb.Config{
		Dir: opts.dataDir, Port: opts.pgPort, Fresh: opts.fresh, Log: log,
		Settings: map[string]string{"max_connections": strconv.Itoa(max(100, int(cfg.Database.PoolSize)+spareConnections))},
	})
}

// runOnCluster returns when ctx has ended and the server has stopped, when the
// server has failed, or when Postgres has died and the server has stopped.
func runOnCluster(ctx context.Context, out io.Writer, cfg config.Config, log *zap.Logger, cluster *devdb.Cluster, run runFunc) error {
	if err := cluster.CreateDatabase(ctx, devDatabase); err != nil {
		return unlessStopped(ctx, err)
	}
	cfg.Database.URL, cfg.Database.ListenURL = cluster.URL(devDatabase), ""

	serving, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-cluster.Done():
			cancel(fmt.Errorf("%w (its log is in %s)", errPostgresDied, cluster.Dir()))
		case <-serving.Done():
		}
	}()
	var greeting error
	err := run(serving, cfg, log, func(addr net.Addr) { greeting = greet(out, addr, cluster) })
	cancel(nil)
	<-watched
	if died := context.Cause(serving); errors.Is(died, errPostgresDied) {
		return died // what the server says about it is a consequence
	}
	var unreleased *migrate.UnreleasedError
	if errors.As(err, &unreleased) {
		err = fmt.Errorf("%w; or run \"belfry dev --fresh\", which deletes the data of earlier runs", err)
	}
	return errors.Join(unlessStopped(ctx, err), greeting)
}

// unlessStopped drops an error that only says that ctx ended: that is how a stop
// in the middle of a start looks.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// greet prints where things are and lines to paste. No line has a comment after
// it: some shells do not take one.
func greet(out io.Writer, addr net.Addr, cluster *devdb.Cluster) error {
	base := reachable(addr)
	_, err := fmt.Fprintf(out, `Belfry listens on http://%[1]s; its data is in %[2]s
psql %[3]s

Push a message to the queue demo:
curl -s %[1]s/api/v1/push -H 'Content-Type: application/json' -d '{"items":[{"queue":"demo","payload":{"hello":"world"}}]}'

Take it, or wait for one for up to 30 seconds:
curl -s '%[1]s/api/v1/pop/queue/demo?wait=true&timeout=30000&autoAck=true'

Wait as another group, which gets every message too:
curl -s '%[1]s/api/v1/pop/queue/demo?consumerGroup=audit&wait=true'

Ctrl-C stops the server and its Postgres.
`, base, cluster.Dir(), "'"+cluster.URL(devDatabase)+"'")
	if err != nil {
		return fmt.Errorf("printing the greeting: %w", err)
	}
	return nil
}

// reachable is host:port for a client on this machine: a server that listens on
// every address is found on localhost.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

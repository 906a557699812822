//go:build !release && !windows

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
)

const (
	devDatabase = "belfry"
	// devStopTimeout limits the time of the fast shutdown of Postgres.
	devStopTimeout = 30 * time.Second
	// spareConnections is added to the size of the pool, for psql and for Postgres itself.
	spareConnections = 30
)

var errPostgresDied = errors.New("the private Postgres has died")

// devOptions are the flags of dev.
type devOptions struct {
	dataDir string
	pgPort  int
	fresh   bool
}

// serveFunc is the signature of app.Run.
type serveFunc func(ctx context.Context, cfg config.Config, log *zap.Logger, ready func(net.Addr)) error

func newDevCmd() *cobra.Command {
	var opts devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the server with a private Postgres",
		Long: `Run the server with a private Postgres, for development. The data is kept between
runs. The programs of Postgres come from BELFRY_PG_BIN, PATH or the usual folders. If
the machine has none, they are downloaded once. Postgres listens only on 127.0.0.1 and
needs no password. The server listens on 127.0.0.1 too, unless --http-addr names a host.
Use 0.0.0.0:6632 for all addresses of the machine.

Ctrl-C stops the server, then Postgres. A second Ctrl-C exits at once, and the next run
cleans up.`,
		Example: `  belfry dev
  belfry dev --fresh --http-addr :7000
  belfry dev --data ./pgdata --http-addr 127.0.0.1:7000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServerLogger(cmd, func(ctx context.Context, cfg config.Config, log *zap.Logger) error {
				d := &devServer{out: cmd.OutOrStdout(), cfg: cfg, log: log, opts: opts, serve: app.Run}
				return d.run(ctx)
			})
		},
	}
	cmd.Flags().StringVar(&opts.dataDir, "data", "", "folder of the private Postgres (default: a folder of the user; the server prints it at the start)")
	cmd.Flags().IntVar(&opts.pgPort, "pg-port", 0, "port of the private Postgres, 0 for a free one")
	cmd.Flags().BoolVar(&opts.fresh, "fresh", false, "delete the data of earlier runs first")
	return cmd
}

// devServer is one run of `belfry dev`.
type devServer struct {
	out   io.Writer
	cfg   config.Config
	log   *zap.Logger
	opts  devOptions
	serve serveFunc
}

// run starts Postgres, runs the server on it until ctx ends, and stops both. It returns an error if Postgres or the
// server failed, and nil after a normal stop.
func (d *devServer) run(ctx context.Context) error {
	cluster, err := d.startCluster(ctx)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	err = d.runOnCluster(ctx, cluster)
	// ctx has usually ended. Postgres needs more time for its last checkpoint.
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), devStopTimeout)
	defer cancel()
	return errors.Join(err, cluster.Stop(stopping))
}

func (d *devServer) startCluster(ctx context.Context) (*devdb.Cluster, error) {
	dir := d.opts.dataDir
	if dir == "" {
		var err error
		if dir, err = devdb.DefaultDir(); err != nil {
			return nil, err
		}
	}
	if d.cfg.Database.URL != "" {
		d.log.Warn("database.url was ignored: `belfry dev` runs a private Postgres; use `belfry serve` for your own")
	}
	return devdb.Start(ctx, devdb.Config{
		Dir: dir, Port: d.opts.pgPort, Fresh: d.opts.fresh, Log: d.log,
		Settings: map[string]string{"max_connections": strconv.Itoa(max(100, int(d.cfg.Database.PoolSize)+spareConnections))},
	})
}

// runOnCluster runs the server on the cluster. It blocks until the server has stopped: after
// ctx ended, after Postgres died, or after the server failed.
func (d *devServer) runOnCluster(ctx context.Context, cluster *devdb.Cluster) error {
	if err := cluster.CreateDatabase(ctx, devDatabase); err != nil {
		return unlessStopped(ctx, err)
	}
	cfg := d.cfg
	cfg.Database.URL, cfg.Database.ListenURL = setting.Secret(cluster.URL(devDatabase)), ""
	if cfg.Spool.Dir == spool.DefaultConfig().Dir {
		cfg.Spool.Dir = filepath.Join(cluster.Dir(), "spool")
	}
	cfg.HTTP.Addr = onLoopback(cfg.HTTP.Addr)
	cfg.HTTP.DrainDelay = 0 // there is no load balancer
	if cfg.Encryption.Key == "" && cfg.Encryption.Keys == "" {
		key, err := devKey(cluster.Dir())
		if err != nil {
			return err
		}
		cfg.Encryption.Key = key
	}

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
	err := d.serve(serving, cfg, d.log, func(addr net.Addr) { greeting = greet(d.out, cfg.HTTP, addr, cluster) })
	cancel(nil)
	<-watched
	if died := context.Cause(serving); errors.Is(died, errPostgresDied) {
		return died // the error of the server is only a consequence of this error
	}
	var unreleased *migrate.UnreleasedError
	if errors.As(err, &unreleased) {
		err = fmt.Errorf("%w; or run \"belfry dev --fresh\", which deletes the data of earlier runs", err)
	}
	return errors.Join(unlessStopped(ctx, err), greeting)
}

// onLoopback adds the host 127.0.0.1 to an address without a host.
func onLoopback(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// unlessStopped returns nil if err only reports the end of ctx. This happens when the user stops the command while it
// starts.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// greet prints the addresses and example commands. The commands contain no comments, because some interactive shells
// do not accept comments.
func greet(out io.Writer, cfg httpapi.Config, addr net.Addr, cluster *devdb.Cluster) error {
	cfg.Addr = addr.String()
	base := apiURL(cfg)
	_, err := fmt.Fprintf(out, `Belfry listens on %[1]s; its data is in %[2]s
psql %[3]s

Push a message to the queue demo:
curl -s %[1]s/api/v1/push -H 'Content-Type: application/json' -d '{"items":[{"queue":"demo","payload":{"hello":"world"}}]}'

Pop it, or wait up to 30 seconds for a message:
curl -s '%[1]s/api/v1/pop/queue/demo?wait=true&timeout=30000&autoAck=true'

Wait as another consumer group, which gets every message too:
curl -s '%[1]s/api/v1/pop/queue/demo?consumerGroup=audit&wait=true'

Ctrl-C stops the server and its Postgres.
`, base, cluster.Dir(), "'"+cluster.URL(devDatabase)+"'")
	if err != nil {
		return fmt.Errorf("printing the greeting: %w", err)
	}
	return nil
}

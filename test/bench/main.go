package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/devdb"
)

type settings struct {
	databaseURL string
	duration    time.Duration
	connections int
	partitions  int
	payload     int
}

func main() {
	var s settings
	flag.StringVar(&s.databaseURL, "database-url", "", "an empty database to measure on (default: a private one, started here)")
	flag.DurationVar(&s.duration, "duration", 3*time.Second, "length of each measurement")
	flag.IntVar(&s.connections, "connections", 8, "HTTP connections, and connections of the raw INSERT")
	flag.IntVar(&s.partitions, "partitions", 100, "partitions of the queue")
	flag.IntVar(&s.payload, "payload", 100, "bytes of a payload")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		printf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.databaseURL == "" {
		url, stop, err := privateDatabase(ctx)
		if err != nil {
			return err
		}
		defer stop()
		s.databaseURL = url
	}
	base, stopServer, err := startServer(ctx, s.databaseURL)
	if err != nil {
		return err
	}
	defer stopServer()
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", s.databaseURL, s.connections))
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer pool.Close()

	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Printf("%d connections, %d partitions, %d-byte payloads, %s each\n\n", s.connections, s.partitions, s.payload, s.duration)
	printf(table, "batch\traw INSERT rows/s\tpush messages/s\tpush/raw\tpop+ack messages/s\tpop+ack/raw\t\n")
	for _, batch := range []int{1, 10, 100} {
		raw, err := measureRaw(ctx, s, pool, batch)
		if err != nil {
			return fmt.Errorf("measuring the raw limit: %w", err)
		}
		b := newBench(s, base, batch)
		pushed, err := b.measurePush(ctx)
		if err != nil {
			return fmt.Errorf("measuring push: %w", err)
		}
		popped, err := b.measurePopAck(ctx)
		if err != nil {
			return fmt.Errorf("measuring pop and ack: %w", err)
		}
		printf(table, "%d\t%.0f\t%.0f\t%.0f%%\t%.0f\t%.0f%%\t\n", batch, raw, pushed, 100*pushed/raw, popped, 100*popped/raw)
	}
	return table.Flush()
}

// printf writes to the terminal; a terminal that is gone is no concern of ours.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

func privateDatabase(ctx context.Context) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "belfry-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("making a directory: %w", err)
	}
	// As root, Postgres runs under another account, which must get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", nil, fmt.Errorf("opening the directory: %w", err)
	}
	cluster, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dir, "cluster"), Log: zap.NewNop(), Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "8GB", "max_connections": "200",
	}})
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cluster.Stop(ctx); err != nil {
			printf(os.Stderr, "bench: stopping Postgres: %v\n", err)
		}
		_ = os.RemoveAll(dir)
	}
	if err := cluster.CreateDatabase(ctx, "bench"); err != nil {
		stop()
		return "", nil, err
	}
	return cluster.URL("bench"), stop, nil
}

func startServer(ctx context.Context, databaseURL string) (base string, stop func(), err error) {
	cfg := config.Default()
	cfg.Database.URL = databaseURL
	cfg.HTTP.Addr = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(ctx)
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, zap.NewNop(), func(addr net.Addr) { ready <- addr }) }()
	select {
	case addr := <-ready:
		return "http://" + addr.String(), func() {
			cancel()
			if err := <-done; err != nil {
				printf(os.Stderr, "bench: stopping the server: %v\n", err)
			}
		}, nil
	case err := <-done:
		cancel()
		return "", nil, fmt.Errorf("starting the server: %w", err)
	}
}

// Command costs measures what messages, partitions, groups and waiting requests cost. It prints the constants of
// pkg/cli/bench/plan. Run it on one core and on two:
//
//	taskset -c 0 go run ./test/bench/costs
//	taskset -c 0,1 go run ./test/bench/costs
//
// It starts a private Postgres and a server. The load comes from this process. Costs are processor time from /proc, so
// other programs on the machine change them little. The command needs Linux and takes about three minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// settings are the settings of docker-compose.yml that matter for costs. No checkpoint starts during the measurement.
var settings = map[string]string{
	"shared_buffers": "256MB", "wal_compression": "lz4", "max_wal_size": "8GB", "checkpoint_timeout": "1h",
	"autovacuum_naptime": "5s", "autovacuum_vacuum_cost_limit": "2000", "max_connections": "200",
}

// payload is the number of bytes of a payload, unless the line says otherwise.
const payload = 100

func main() {
	scale := flag.Float64("scale", 1, "multiplies the number of messages")
	flag.BoolVar(&onlyFlows, "flows", false, "measure only the flows that check belfry bench plan")
	os.Exit(rig.Main(nil, func(ctx context.Context, out *rig.Report) (err error) {
		cluster, err := rig.StartCluster(ctx, settings)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Close()) }()
		return measure(ctx, cluster, *scale, out)
	}))
}

// bench is one server on a database of its own.
type bench struct {
	*rig.Server
	admin *pgx.Conn
	// postmaster is the process id of Postgres.
	postmaster int
	// sent and received count the bytes of the bodies of requests and answers.
	sent, received atomic.Int64
}

// newBench starts a server on a new database. The caller must close it.
func newBench(ctx context.Context, cluster *rig.Cluster) (*bench, error) {
	database, servers, err := cluster.Start(ctx, 1, "BELFRY_DEFAULTS_RETRY_LIMIT=3")
	if err != nil {
		return nil, err
	}
	b := &bench{Server: servers[0]}
	if b.admin, err = pgx.Connect(ctx, cluster.URL(database)); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to Postgres: %w", err), b.Stop())
	}
	if b.postmaster, err = postmaster(ctx, b.admin); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

func (b *bench) close(ctx context.Context) error {
	return errors.Join(b.admin.Close(context.WithoutCancel(ctx)), b.Stop())
}

// loads are the measured ways to push and to consume. More connections push when batches are small, as in production.
var loads = []load{
	{batch: 1, connections: 1, messages: 3_000},
	{batch: 1, connections: 32, messages: 15_000},
	{batch: 10, connections: 16, messages: 40_000},
	{batch: 100, connections: 8, messages: 100_000},
	{batch: 1000, connections: 4, messages: 200_000},
	{batch: 100, connections: 8, messages: 50_000, payload: 1100},
}

// onlyFlows leaves out the measurement of the constants.
var onlyFlows bool

func measure(ctx context.Context, cluster *rig.Cluster, scale float64, out *rig.Report) error {
	out.Printf("cores: %d\n\n", runtime.NumCPU())
	if onlyFlows {
		return measureFlows(ctx, cluster, out)
	}
	const header = "%-5s %6s %11s %7s %9s %9s %10s %10s %9s %9s %9s %9s\n"
	out.Printf(header, "what", "batch", "connections", "payload", "WAL bytes", "disk", "Postgres", "server", "syncs", "commits", "sent", "received")
	out.Printf(header, "", "", "", "bytes", "/message", "/message", "µs/message", "µs/message", "/call", "/call", "B/message", "B/message")
	for _, l := range loads {
		l.messages = max(l.batch*l.connections, int(float64(l.messages)*scale))
		if l.payload == 0 {
			l.payload = payload
		}
		if err := measureLoad(ctx, cluster, l, out); err != nil {
			return fmt.Errorf("batch %d: %w", l.batch, err)
		}
	}
	if err := measureGroups(ctx, cluster, scale, out); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	if err := measureWaiting(ctx, cluster, out); err != nil {
		return fmt.Errorf("waiting requests: %w", err)
	}
	if err := measureFlows(ctx, cluster, out); err != nil {
		return fmt.Errorf("flows: %w", err)
	}
	return nil
}

// measureLoad pushes messages and consumes them, and prints the costs of both.
func measureLoad(ctx context.Context, cluster *rig.Cluster, l load, out *rig.Report) (err error) {
	b, err := newBench(ctx, cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	// The group exists before the messages, and the partitions and connections are warm.
	if err := b.prepare(ctx, l, 1); err != nil {
		return err
	}
	pushed, err := b.costOf(ctx, func() error { return b.push(ctx, l) })
	if err != nil {
		return err
	}
	pushed.print(out, "push", l)
	popped, err := b.costOf(ctx, func() error { return b.consume(ctx, l, "group-0") })
	if err != nil {
		return err
	}
	popped.print(out, "pop", l)
	return nil
}

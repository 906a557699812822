// Command live compares streams of messages with long polls, and a system with watchers of events with a system without
// watchers.
//
//	go run ./test/bench/live
//	go run ./test/bench/live --consumers 200 --quiet 5s --rounds 1 idle
//
// It has three measures: idle, latency and watchers. Each measure has its own servers and database:
//
//   - idle: the statements and the memory of idle consumers, as streams and as long polls,
//   - latency: the time from the start of a push to the arrival at one consumer, as a stream and as a long poll,
//   - watchers: the statements during pushes at one of two instances, while 0, 1 or 10 watchers watch the
//     other instance.
//
// The servers run no periodic statements: their canaries and sweeps run once an hour, and they write no history. So each
// counted statement belongs to a request. The exit code is 1 if the report misses a limit.
//
// The command starts a private Postgres and the servers as child processes. It needs Linux and the contrib package of
// Postgres.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

type settings struct {
	consumers, messages, rounds int
	quiet                       time.Duration
}

// measures are the parts of each round.
var measures = []rig.Measure[*suite]{{Name: "idle", Run: measureIdle}, {Name: "latency", Run: measureLatency}, {Name: "watchers", Run: measureWatchers}}

func main() {
	var s settings
	flag.IntVar(&s.consumers, "consumers", 1000, "idle consumers")
	flag.IntVar(&s.messages, "messages", 500, "messages for each kind of consumer in a round")
	flag.IntVar(&s.rounds, "rounds", 2, "rounds of each measure")
	flag.DurationVar(&s.quiet, "quiet", 20*time.Second, "duration of the phases in which statements are counted")
	os.Exit(rig.Main(nil, func(ctx context.Context, out *rig.Report) error { return run(ctx, s, flag.Args(), out) }))
}

// suite is shared by all measures: a private Postgres and a connection to its statistics.
type suite struct {
	settings
	cluster *rig.Cluster
	admin   *pgx.Conn
}

func run(ctx context.Context, s settings, names []string, out *rig.Report) (err error) {
	chosen, err := rig.Choose(measures, names)
	if err != nil {
		return err
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	r := &suite{settings: s}
	if r.cluster, err = rig.StartCluster(ctx, map[string]string{"shared_preload_libraries": "pg_stat_statements"}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.cluster.Close()) }()
	if r.admin, err = r.cluster.CountStatements(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.admin.Close(context.WithoutCancel(ctx))) }()
	for round := range s.rounds {
		out.Printf("round %d of %d\n", round+1, s.rounds)
		if err := rig.Run(ctx, r, chosen, out); err != nil {
			return err
		}
	}
	return nil
}

// quietly are settings of a server that runs no periodic statements.
var quietly = []string{
	"BELFRY_LISTEN_CANARY_INTERVAL=1h", "BELFRY_LISTEN_PEER_TIMEOUT=3h", "BELFRY_SWEEP_RETENTION_INTERVAL=1h",
	"BELFRY_SWEEP_EVICTION_INTERVAL=1h", "BELFRY_HISTORY_ENABLED=false",
}

// counted returns the number of statements since rig.ResetStatements, and a list of them.
func (r *suite) counted(ctx context.Context, database string) (n int, list string, err error) {
	all, err := load.Statements(ctx, r.admin, database)
	if err != nil {
		return 0, "", err
	}
	load.SortStatements(all)
	var parts []string
	for _, s := range all {
		n += s.Calls
		parts = append(parts, fmt.Sprintf("%d x %s", s.Calls, load.ShortStatement(s.Text)))
	}
	return n, strings.Join(parts, ", "), nil
}

// Command live compares streams of messages with long polls, and watchers of events with none, in one run.
//
//	go run ./test/bench/live
//	go run ./test/bench/live --consumers 200 --quiet 5s --rounds 1 idle
//
// It measures idle, latency and watchers, each with servers and a database of its own:
//
//   - the statements and the memory of idle consumers: streams, and long polls,
//   - the time from the begin of a push to the arrival of its message at one consumer: streams, and long polls, in turns,
//   - the statements while messages are pushed at one of two instances and watchers watch the other one: none, 1 and 10.
//
// The servers make no statement by the clock: their canaries and sweeps are an hour apart, and they write no history. So each
// counted statement is one of the requests. The exit code is 1 if a limit of the report is missed.
//
// The command starts a private Postgres and the servers as child processes. It needs Linux, and the contrib programs of
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

// measures are the parts of a round.
var measures = []rig.Measure[*suite]{{Name: "idle", Run: measureIdle}, {Name: "latency", Run: measureLatency}, {Name: "watchers", Run: measureWatchers}}

func main() {
	var s settings
	flag.IntVar(&s.consumers, "consumers", 1000, "idle consumers")
	flag.IntVar(&s.messages, "messages", 500, "messages of each kind in a round")
	flag.IntVar(&s.rounds, "rounds", 2, "rounds of each measure")
	flag.DurationVar(&s.quiet, "quiet", 20*time.Second, "length of the phases in which statements are counted")
	os.Exit(rig.Main(nil, func(ctx context.Context, out *rig.Report) error { return run(ctx, s, flag.Args(), out) }))
}

// suite is the private Postgres.
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

// quietly makes a server execute no statement by the clock.
var quietly = []string{
	"BELFRY_LISTEN_CANARY_INTERVAL=1h", "BELFRY_LISTEN_PEER_TIMEOUT=3h", "BELFRY_SWEEP_RETENTION_INTERVAL=1h",
	"BELFRY_SWEEP_EVICTION_INTERVAL=1h", "BELFRY_HISTORY_ENABLED=false",
}

// counted returns the statements since rig.ResetStatements, and lists them.
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

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/limits"
	"github.com/belfry-mq/belfry/test/chaos/ticks"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

// settings are the flags of the command.
type settings struct {
	seed      uint64
	duration  time.Duration
	instances int
	faults    []string
	pooler    string
	// schedules and ticks are the size of a run with schedules: how many schedules, and the number of messages after which it
	// ends. schedules is 0 for a run with the common workload.
	schedules, ticks int
	// limits is set for a run with limited groups.
	limits bool
	keep   bool // keep the folder of the run even if all promises were kept
}

func main() {
	if code, child := world.Child(); child {
		os.Exit(code)
	}
	var s settings
	var faults string
	flag.Uint64Var(&s.seed, "seed", 0, "seed of all random choices; 0 picks one")
	flag.DurationVar(&s.duration, "duration", time.Minute, "how long to inject faults")
	flag.IntVar(&s.instances, "instances", 2, "number of servers")
	flag.StringVar(&faults, "faults", "", "names of faults, separated by commas (default: all)")
	flag.StringVar(&s.pooler, "pooler", "", "mode of a PgBouncer between the servers and Postgres: session or transaction (default: none)")
	flag.IntVar(&s.schedules, "schedules", 0, "test this number of schedules that are due each second, instead of the common workload")
	flag.IntVar(&s.ticks, "ticks", 100_000, "with --schedules: number of messages after which the run ends")
	flag.BoolVar(&s.limits, "limits", false, "test groups with a rate and a concurrency, instead of the common workload")
	list := flag.Bool("list", false, "print the names of the faults and exit")
	flag.Parse()
	if *list {
		for _, f := range world.Faults() {
			printf(os.Stdout, "%s\n", f.Name)
		}
		return
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	if faults != "" {
		s.faults = strings.Split(faults, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runTwice(ctx, s, os.Stdout, func(ctx context.Context, s settings, out io.Writer) error {
		switch {
		case s.limits:
			return runLimited(ctx, s, out, limits.Judge)
		case s.schedules > 0:
			return runSchedules(ctx, s, out, ticks.Judge)
		}
		return run(ctx, s, out, judge)
	})
	stop()
	if err != nil {
		printf(os.Stderr, "chaos: seed %d: %v\n", s.seed, err)
		os.Exit(1)
	}
}

// printf writes progress. The run continues if the write fails.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

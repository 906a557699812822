package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/bench"
)

func newBenchCmd() *cobra.Command {
	s, report := bench.Defaults(), ""
	cmd := &cobra.Command{
		Use:   "bench <scenario>... | all",
		Short: "Put load on a server, measure it and verify it",
		Long: `Put load on a server with this HTTP API, measure it and verify that every push
it acknowledged is delivered, in order and once. It exits with 1 when that is not
so. Each run uses a queue of its own and deletes it.

` + bench.Describe() + `
0 for --connections, --batch, --partitions and --groups is the scenario's own
number. With --rate, pushes start at fixed instants and their times count from
there, however late they are sent.`,
		Example: `  belfry bench push --connections 32 --batch 100
  belfry bench end-to-end --rate 5000 --duration 1m --json result.json
  belfry bench all --repeat 3 --baseline --database-url postgres://belfry@localhost/belfry`,
		ValidArgs: append(bench.Names(), bench.All),
		PreRunE: func(_ *cobra.Command, args []string) error {
			s.Scenarios = args
			// The database may be named elsewhere than on the command line.
			check := s
			check.Baseline, check.HoldSnapshot = false, false
			return check.Validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			s.DatabaseURL = cfg.Database.URL
			if terminal(cmd.ErrOrStderr()) {
				s.Progress = cmd.ErrOrStderr()
			}
			return runBench(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), s, report)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.URL, "url", s.URL, "the server")
	flags.IntVar(&s.Connections, "connections", 0, "requests at the same time, producers and consumers together")
	flags.IntVar(&s.Producers, "producers", 0, "producers among the connections where others pop meanwhile, 0 for an equal share")
	flags.IntVar(&s.Batch, "batch", 0, "messages in a push, and at most in a pop")
	flags.IntVar(&s.PopBatch, "pop-batch", 0, "messages in a pop at most, 0 for as many as in a push")
	flags.IntVar(&s.Payload, "payload", s.Payload, "bytes of a message")
	flags.IntVar(&s.Partitions, "partitions", 0, "partitions of the queue")
	flags.IntVar(&s.PushPartitions, "push-partitions", s.PushPartitions, "partitions the messages of a push are for; the official clients push to one")
	flags.IntVar(&s.PopPartitions, "pop-partitions", s.PopPartitions, "partitions a pop takes from, at most")
	flags.IntVar(&s.Groups, "groups", 0, "consumer groups of fan-out")
	flags.IntVar(&s.Window, "window", 0, "messages on the way in a closed loop, 0 for four batches a connection")
	flags.IntVar(&s.Backlog, "backlog", s.Backlog, "messages that pop drains")
	flags.DurationVar(&s.Duration, "duration", s.Duration, "how long to measure")
	flags.DurationVar(&s.Warmup, "warmup", s.Warmup, "how long to run before measuring; pop has none")
	flags.Float64Var(&s.Rate, "rate", 0, "messages per second over all connections, 0 for as many as there are answers (closed loop)")
	flags.BoolVar(&s.AutoAck, "auto-ack", false, "consume on delivery instead of acknowledging")
	flags.BoolVar(&s.TransactionIDs, "transaction-ids", false, "give every message an id, as the official clients do")
	flags.IntVar(&s.Repeat, "repeat", s.Repeat, "runs of each scenario; the median is shown too")
	flags.BoolVar(&s.Baseline, "baseline", false, "measure plain INSERTs at --database-url before each run, print ratios, and watch for locks")
	flags.IntVar(&s.BaselineConnections, "baseline-connections", 0, "connections of the baseline, 0 for as many as the run has")
	flags.BoolVar(&s.HoldSnapshot, "hold-snapshot", false, "keep a REPEATABLE READ transaction open at --database-url during each run")
	flags.BoolVar(&s.Keep, "keep", false, "leave the queues behind")
	flags.StringVar(&report, "json", "", "write the report as JSON to this file, - for standard output")
	return cmd
}

// runBench prints what was measured, also when it ended early or badly. JSON on
// standard output has it to itself.
func runBench(ctx context.Context, stdout, stderr io.Writer, s bench.Settings, file string) (err error) {
	people, programs := stdout, io.Discard
	switch file {
	case "":
	case "-":
		people, programs = stderr, stdout
	default:
		// Made first: an hour of load should not end with a name mistyped.
		out, failed := os.Create(file)
		if failed != nil {
			return fmt.Errorf("making the file of --json: %w", failed)
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		programs = out
	}
	measured, err := bench.Run(ctx, s)
	if len(measured.Outcomes) == 0 {
		return err
	}
	return errors.Join(err, measured.WriteTable(people), measured.WriteJSON(programs))
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/bench"
	"github.com/belfry-mq/belfry/pkg/cli/session"
)

func newBenchCmd() *cobra.Command {
	s, reportPath := bench.Defaults(), ""
	cmd := &cobra.Command{
		Use:   "bench <scenario>... | all",
		Short: "Put load on a server, measure it and verify it",
		Long: `Put load on a Belfry server, or on another server with the same HTTP API. Measure the
load, and verify that the server delivers every acknowledged push once and in order. The
exit code is 1 if the verification fails. Each run creates a new queue and deletes it.

` + bench.Describe() + `
If --connections, --batch, --partitions or --groups is 0, the scenario uses its default.
With --rate, each push has a planned start time. Its latency counts from that time, even
if the push is sent late.`,
		Example: `  belfry bench push --connections 32 --batch 100
  belfry bench end-to-end --rate 5000 --duration 1m --json result.json
  belfry bench all --repeat 3 --baseline --database-url postgres://belfry@localhost/belfry`,
		ValidArgs: append(bench.Names(), bench.All),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			target, err := session.TargetOf(cmd)
			if err != nil {
				return err
			}
			s.URL, s.Token, s.CAFile, s.Scenarios = target.Server, target.Token, target.CAFile, args
			// PreRunE runs before RunE reads the configuration. So bench.Run checks that these two flags have a
			// database URL.
			check := s
			check.Baseline, check.HoldSnapshot = false, false
			return check.Validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			s.DatabaseURL = cfg.Database.URL.Reveal()
			if isTerminal(cmd.ErrOrStderr()) {
				s.Progress = cmd.ErrOrStderr()
			}
			return runBench(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), s, reportPath)
		},
	}
	addBenchFlags(cmd, &s, &reportPath)
	cmd.AddCommand(newBenchPlanCmd())
	return cmd
}

func addBenchFlags(cmd *cobra.Command, s *bench.Settings, reportPath *string) {
	session.AddServerFlags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&s.Connections, "connections", 0, "requests at the same time, producers and consumers together")
	flags.IntVar(&s.Producers, "producers", 0, "connections that produce, in scenarios that also consume; 0 for as many as each consumer group has")
	flags.IntVar(&s.Batch, "batch", 0, "messages per push, and the maximum per pop")
	flags.IntVar(&s.PopBatch, "pop-batch", 0, "maximum messages per pop, 0 for the value of --batch")
	flags.IntVar(&s.Payload, "payload", s.Payload, "bytes of a message")
	flags.IntVar(&s.Headers, "headers", 0, "headers of a message, each with a value of 32 bytes")
	flags.IntVar(&s.Partitions, "partitions", 0, "partitions of the queue")
	flags.IntVar(&s.PushPartitions, "push-partitions", s.PushPartitions, "partitions that one push writes to; the official clients write to one")
	flags.IntVar(&s.PopPartitions, "pop-partitions", s.PopPartitions, "maximum partitions per pop")
	flags.IntVar(&s.Groups, "groups", 0, "consumer groups of fan-out")
	flags.IntVar(&s.Window, "window", 0, "without --rate: maximum number of messages pushed and not yet consumed, 0 for four batches per connection")
	flags.IntVar(&s.Backlog, "backlog", s.Backlog, "messages that the scenario pop drains")
	flags.DurationVar(&s.Duration, "duration", s.Duration, "how long to measure")
	flags.DurationVar(&s.Warmup, "warmup", s.Warmup, "how long to run before measuring; the scenario pop has no warm-up")
	flags.Float64Var(&s.Rate, "rate", 0, "messages per second over all connections, 0 to push as fast as the server answers")
	flags.BoolVar(&s.AutoAck, "auto-ack", false, "consume messages on delivery, without acks")
	flags.BoolVar(&s.TransactionIDs, "transaction-ids", false, "give every message an id, as the official clients do")
	flags.IntVar(&s.Repeat, "repeat", s.Repeat, "runs of each scenario; the median is shown too")
	flags.BoolVar(&s.Baseline, "baseline", false, "measure plain INSERTs at --database-url before each run, print ratios, and sample the waits for locks")
	flags.IntVar(&s.BaselineConnections, "baseline-connections", 0, "connections of the baseline, 0 for the value of --connections")
	flags.BoolVar(&s.HoldSnapshot, "hold-snapshot", false, "keep a REPEATABLE READ transaction open at --database-url during each run")
	flags.BoolVar(&s.Keep, "keep", false, "do not delete the queues")
	flags.StringVar(reportPath, "json", "", "write the report as JSON to this file, - for standard output")
}

// runBench prints the results, even if a run failed or ended early. If the JSON
// goes to standard output, the table goes to standard error.
func runBench(ctx context.Context, stdout, stderr io.Writer, s bench.Settings, reportPath string) (err error) {
	tableOut, jsonOut := stdout, io.Discard
	switch reportPath {
	case "":
	case "-":
		tableOut, jsonOut = stderr, stdout
	default:
		// The file is created before the load starts, so that a mistyped name fails at once.
		out, failed := os.Create(reportPath)
		if failed != nil {
			return fmt.Errorf("creating the file of --json: %w", failed)
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		jsonOut = out
	}
	measured, err := bench.Run(ctx, s)
	if len(measured.Outcomes) == 0 {
		return err
	}
	return errors.Join(err, measured.WriteTable(tableOut), measured.WriteJSON(jsonOut))
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

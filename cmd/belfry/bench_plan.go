package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/bench/plan"
	"github.com/belfry-mq/belfry/pkg/cli/session"
)

func newBenchPlanCmd() *cobra.Command {
	in := plan.Defaults()
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Compute how large a machine your load needs",
		Long: `Compute the cores, the disk, the memory and the network that a load needs, and the load
that machines of 2 to 64 cores can take. The costs were measured on 1 and 2 cores; see
docs/sizing.md. The command connects to no server.`,
		Example: `  belfry bench plan --rate 5000 --payload 512 --groups 3
  belfry bench plan --rate 200 --batch 1 --retention 24h -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.Validate(); err != nil {
				return session.UsageError(err.Error())
			}
			out, err := session.PrinterOf(cmd)
			if err != nil {
				return err
			}
			report := plan.NewReport(in)
			if out.IsTable() {
				if out.Quiet {
					return nil
				}
				return report.WriteTable(cmd.OutOrStdout())
			}
			encoded, err := json.Marshal(report)
			if err != nil {
				return err
			}
			return out.Answer(encoded, "", "")
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&in.Rate, "rate", in.Rate, "messages that are pushed per second, at the busiest time")
	flags.IntVar(&in.Payload, "payload", in.Payload, "bytes of a payload")
	flags.IntVar(&in.Batch, "batch", in.Batch, "messages per push")
	flags.IntVar(&in.PopBatch, "pop-batch", 0, "messages per pop, 0 for the value of --batch")
	flags.IntVar(&in.Groups, "groups", in.Groups, "consumer groups that receive each message")
	flags.IntVar(&in.Waiting, "waiting", in.Waiting, "requests that wait for messages at the same time, at all instances")
	flags.IntVar(&in.Partitions, "partitions", in.Partitions, "partitions of all queues")
	flags.DurationVar(&in.Retention, "retention", in.Retention, "how long messages are stored")
	flags.IntVar(&in.Instances, "instances", in.Instances, "instances of Belfry")
	flags.IntVar(&in.Utilization, "utilization", in.Utilization, "percentage of the cores that the load may use")
	session.AddOutputFlags(cmd)
	return cmd
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	paced "github.com/belfry-mq/belfry/pkg/cli/bench"
	"github.com/belfry-mq/belfry/pkg/cli/bench/plan"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

// flows are loads with a fixed rate and consumers that wait. They check the calculation of `belfry bench plan`.
var flows = []struct {
	rate  float64
	batch int
}{{100, 1}, {500, 1}, {500, 10}, {2000, 10}, {5000, 100}}

// flowDuration is how long each flow runs.
const flowDuration = 10 * time.Second

// measureFlows prints the processor time of flows, and what plan computes for them.
func measureFlows(ctx context.Context, cluster *rig.Cluster, out *rig.Report) (err error) {
	b, err := newBench(ctx, cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	if err := b.prepare(ctx, load{1, 8, 1, payload}, 1); err != nil {
		return err
	}
	out.Printf("\n%-28s %12s %12s %12s %12s\n", "pushes and waiting consumers", "Postgres", "computed", "server", "computed")
	for _, flow := range flows {
		s := paced.Defaults()
		s.URL, s.Scenarios = b.URL("").String(), []string{"end-to-end"}
		s.Rate, s.Batch, s.Payload, s.Duration, s.Warmup = flow.rate, flow.batch, payload, flowDuration, 0
		var report paced.Report
		used, err := b.costOf(ctx, func() (err error) { report, err = paced.Run(ctx, s); return err })
		if err != nil {
			return err
		}
		in := plan.Defaults()
		in.Rate, in.Batch, in.Payload, in.Instances = flow.rate, flow.batch, payload, 1
		n := plan.Compute(in)
		each := func(d time.Duration) float64 {
			return float64(d.Microseconds()) / float64(report.Outcomes[0].Runs[0].Messages)
		}
		out.Printf("%-28s %9.0f µs %9.0f µs %9.0f µs %9.0f µs\n", fmt.Sprintf("%g messages/s, batch %d", flow.rate, flow.batch),
			each(used.postgres), n.PostgresPerMessage, each(used.server), n.ServerPerMessage)
	}
	return nil
}

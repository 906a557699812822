package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"time"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// settings are the values of the flags.
type settings struct {
	connections, pushes, messages, partitions, skips int
	quiet                                            time.Duration
}

// measures has all measures in the order in which they run.
var measures = []rig.Measure[*suite]{
	{Name: "trickle", Run: measureTrickle}, {Name: "inflight", Run: measureInflight}, {Name: "bigpop", Run: measureBigPop},
	{Name: "answers", Run: measureAnswers}, {Name: "poison", Run: measurePoison}, {Name: "million", Run: measureMillion},
	{Name: "skips", Run: measureSkips},
}

func main() {
	var s settings
	flag.IntVar(&s.connections, "connections", 2000, "connections of each kind in the measure trickle")
	flag.IntVar(&s.pushes, "pushes", 500, "concurrent pushes in the measure inflight")
	flag.IntVar(&s.messages, "messages", 1000, "messages in the measure bigpop")
	flag.IntVar(&s.partitions, "partitions", 1_000_000, "partitions in the measure million")
	flag.IntVar(&s.skips, "skips", 1_000_000, "skipped messages in the measure skips")
	flag.DurationVar(&s.quiet, "quiet", 15*time.Second, "duration of a phase in which pushes are timed")
	os.Exit(rig.Main(nil, func(ctx context.Context, out *rig.Report) error {
		chosen, err := rig.Choose(measures, flag.Args())
		if err != nil {
			return err
		}
		r, err := newSuite(ctx, s)
		if err != nil {
			return err
		}
		return errors.Join(rig.Run(ctx, r, chosen, out), r.cluster.Close())
	}))
}

// pushesFailed reports failed pushes. No push may fail.
func pushesFailed(out *rig.Report, what string, t timing) {
	out.Never(what+": pushes that failed", t.failed)
	if t.example != nil {
		out.Note("such as", t.example.Error())
	}
}

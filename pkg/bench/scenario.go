package bench

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
)

// scenario is one way to load a server, with numbers that suit it.
type scenario struct {
	name, about string
	connections int
	batch       int
	partitions  int
	groups      int
	// paced: it has an open loop.
	paced bool
	// flowing: producers and consumers run at the same time.
	flowing bool
	// single: it is about one message, so a baseline of one row tells more than
	// one of many.
	single bool
	// quiet: it pushes nothing.
	quiet bool
	// run loads the server and leaves the figures in the trial.
	run func(ctx context.Context, t *trial) error
}

// scenarios returns all of them in the order of All.
func scenarios() []scenario {
	return []scenario{
		{
			name: "push", about: "producers only",
			connections: 16, batch: 100, partitions: 100, paced: true, run: runPush,
		},
		{
			name: "pop", about: "consumers drain a backlog made before",
			connections: 16, batch: 100, partitions: 100, run: runPop,
		},
		{
			name: "end-to-end", about: "half the connections push, half pop",
			connections: 16, batch: 10, partitions: 100, paced: true, flowing: true, run: runFlow,
		},
		{
			name: "wake", about: "a message now and then for a consumer that waits",
			connections: 1, batch: 1, partitions: 1, single: true, run: runWake,
		},
		{
			name: "idle", about: "requests wait and nothing comes",
			connections: 1000, batch: 1, partitions: 1, quiet: true, run: runIdle,
		},
		{
			name: "herd", about: "all wait in one group, and one message comes",
			connections: 1000, batch: 1, partitions: 1, single: true, run: runHerd,
		},
		{
			name: "fan-out", about: "every group gets every message",
			connections: 22, batch: 10, partitions: 100, groups: 10, paced: true, flowing: true, run: runFlow,
		},
		{
			name: "partitions", about: "end-to-end over many partitions",
			connections: 16, batch: 10, partitions: 10_000, paced: true, flowing: true, run: runFlow,
		},
	}
}

// Names returns the names of all scenarios.
func Names() []string {
	var names []string
	for _, sc := range scenarios() {
		names = append(names, sc.name)
	}
	return names
}

func pacedNames() []string {
	var names []string
	for _, sc := range scenarios() {
		if sc.paced {
			names = append(names, sc.name)
		}
	}
	return names
}

// Describe returns a table of the scenarios and their numbers.
func Describe() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	// A strings.Builder takes everything.
	_, _ = fmt.Fprint(table, "  scenario\twhat\tconnections\tbatch\tpartitions\n")
	for _, sc := range scenarios() {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%d\t%d\t%d\n", sc.name, sc.about, sc.connections, sc.batch, sc.partitions)
	}
	_ = table.Flush()
	return text.String()
}

// settle fills in the numbers that were left to the scenario.
func (sc scenario) settle(s Settings) Settings {
	fill := func(value *int, own int) {
		if *value == 0 {
			*value = own
		}
	}
	fill(&s.Connections, sc.connections)
	fill(&s.Batch, sc.batch)
	fill(&s.PopBatch, s.Batch)
	fill(&s.Partitions, sc.partitions)
	fill(&s.Groups, sc.groups)
	// Only fan-out has groups: the others read in queue mode or in one group.
	if sc.groups == 0 {
		s.Groups = 0
	}
	if !sc.paced {
		s.Rate = 0
	}
	if sc.single || sc.quiet {
		s.Batch, s.PopBatch, s.Partitions = 1, 1, 1
	}
	return s
}

// least is the fewest connections it can run with.
func (sc scenario) least(s Settings) int {
	if !sc.flowing {
		return 1
	}
	return max(1, s.Producers) + max(1, s.Groups)
}

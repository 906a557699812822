package bench

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
)

// scenario is one way to load a server, with its default numbers.
type scenario struct {
	name, about string
	connections int
	batch       int
	partitions  int
	groups      int
	// paced: it accepts a rate.
	paced bool
	// flowing: producers and consumers run at the same time.
	flowing bool
	// single: it measures one message at a time, so its baseline inserts one row at a time.
	single bool
	// quiet: it pushes no message.
	quiet bool
	// run loads the server and fills the trial.
	run func(ctx context.Context, t *trial) error
}

// scenarios returns all scenarios in the order of All.
func scenarios() []scenario {
	return []scenario{
		{
			name: "push", about: "producers only",
			connections: 16, batch: 100, partitions: 100, paced: true, run: runPush,
		},
		{
			name: "pop", about: "consumers drain a backlog",
			connections: 16, batch: 100, partitions: 100, run: runPop,
		},
		{
			name: "end-to-end", about: "half the connections push, half pop",
			connections: 16, batch: 10, partitions: 100, paced: true, flowing: true, run: runFlow,
		},
		{
			name: "wake", about: "a message now and then for a waiting consumer",
			connections: 1, batch: 1, partitions: 1, single: true, run: runWake,
		},
		{
			name: "idle", about: "requests wait and no message arrives",
			connections: 1000, batch: 1, partitions: 1, quiet: true, run: runIdle,
		},
		{
			name: "herd", about: "all requests wait in one group, and one message arrives",
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
func Names() []string { return names(func(scenario) bool { return true }) }

func names(want func(sc scenario) bool) []string {
	var names []string
	for _, sc := range scenarios() {
		if want(sc) {
			names = append(names, sc.name)
		}
	}
	return names
}

// Describe returns a table of the scenarios and their numbers.
func Describe() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	// A strings.Builder never fails.
	_, _ = fmt.Fprint(table, "  scenario\twhat\tconnections\tbatch\tpartitions\n")
	for _, sc := range scenarios() {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%d\t%d\t%d\n", sc.name, sc.about, sc.connections, sc.batch, sc.partitions)
	}
	_ = table.Flush()
	return text.String()
}

// settle replaces zeros by the defaults of the scenario.
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
	// Only fan-out has several groups.
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

// least returns the fewest connections that the scenario can run with.
func (sc scenario) least(s Settings) int {
	if !sc.flowing {
		return 1
	}
	return max(1, s.Producers) + max(1, s.Groups)
}

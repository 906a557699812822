package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// scenario is one way to load a server, with its default settings.
type scenario struct {
	name, about string
	kind
	connections, batch, partitions, groups int
}

// kind has the properties that several scenarios share.
type kind struct {
	// run loads the server and fills the trial.
	run func(ctx context.Context, t *trial) error
	// paced means that the scenario accepts a rate.
	paced bool
	// flowing means that producers and consumers run at the same time.
	flowing bool
	// single means that the scenario measures one message at a time. Its baseline inserts one row at a time.
	single bool
	// quiet means that the scenario pushes no message.
	quiet bool
}

// scenarios returns all scenarios, in the order in which All runs them.
func scenarios() []scenario {
	flow := kind{run: runFlow, paced: true, flowing: true}
	return []scenario{
		{"push", "producers only", kind{run: runPush, paced: true}, 16, 100, 100, 0},
		{"pop", "consumers drain a backlog", kind{run: runPop}, 16, 100, 100, 0},
		{"end-to-end", "half the connections push, half pop", flow, 16, 10, 100, 0},
		{"wake", "a push every 0.3 s for a waiting consumer", kind{run: runWake, single: true}, 1, 1, 1, 0},
		{"idle", "requests wait and no message arrives", kind{run: runIdle, quiet: true}, 1000, 1, 1, 0},
		{"herd", "all requests wait in one group, and one message arrives", kind{run: runHerd, single: true}, 1000, 1, 1, 0},
		{"fan-out", "every group gets every message", flow, 22, 10, 100, 10},
		{"partitions", "end-to-end over many partitions", flow, 16, 10, 10_000, 0},
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

// Describe returns a table of the scenarios and their default settings.
func Describe() string {
	return align(func(table io.Writer) {
		printf(table, "  scenario\twhat\tconnections\tbatch\tpartitions\n")
		for _, sc := range scenarios() {
			printf(table, "  %s\t%s\t%d\t%d\t%d\n", sc.name, sc.about, sc.connections, sc.batch, sc.partitions)
		}
	})
}

// align returns the lines that write writes, and aligns the cells between tabs as columns.
func align(write func(table io.Writer)) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	write(table)
	_ = table.Flush() // a strings.Builder never fails
	return text.String()
}

// printf writes to memory or a terminal and ignores errors.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// settle replaces zeros by the defaults of the scenario, and resets settings that the scenario does not use.
func (sc scenario) settle(s Settings) Settings {
	s.Connections = cmp.Or(s.Connections, sc.connections)
	s.Batch = cmp.Or(s.Batch, sc.batch)
	s.PopBatch = cmp.Or(s.PopBatch, s.Batch)
	s.Partitions = cmp.Or(s.Partitions, sc.partitions)
	s.Groups = cmp.Or(s.Groups, sc.groups)
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

// least returns the minimum number of connections of the scenario.
func (sc scenario) least(s Settings) int {
	if !sc.flowing {
		return 1
	}
	return max(1, s.Producers) + max(1, s.Groups)
}

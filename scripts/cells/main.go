// Command cells simulates a design that docs/scale.md describes and that Belfry does not have: several Postgres servers,
// called cells, where each queue lives in one cell. It prints the tables of that page:
//
//	go run ./scripts/cells
//
// The simulation uses no random numbers and no clock, so each run prints the same.
package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// The simulated system. The capacity is the rate that one cell can take.
const (
	queues   = 2000
	capacity = 20_000.0 // messages/s
)

// cellCounts are the sizes of the simulated systems.
var cellCounts = []int{1, 2, 4, 8, 16}

// skews are exponents of the sizes of queues. Queue number k has a weight of 1/k^skew. With 0 all queues are equal.
var skews = []float64{0, 0.8, 1.1}

func main() {
	if err := report(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cells:", err)
		os.Exit(1)
	}
}

// report prints all tables.
func report(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // Flush returns the error
	printf("1. Messages/s until the busiest cell is full. A cell takes %.0f. There are %d queues.\n\n", capacity, queues)
	printf("SKEW\tLARGEST QUEUE\tPLACEMENT")
	for _, n := range cellCounts {
		printf("\t%d CELLS", n)
	}
	printf("\n")
	for _, skew := range skews {
		all := weights(queues, skew)
		for _, p := range placements {
			printf("%.1f\t%.1f %%\t%s", skew, 100*all[0], p.name)
			for _, n := range cellCounts {
				printf("\t%.0f", throughput(all, p.place(all, n), n))
			}
			printf("\n")
		}
	}
	printf("\n2. What moves when a cell is added, with skew 0.8: queues, and their share of the traffic.\n\n")
	printf("CELLS\tMODULO\t\tRENDEZVOUS\t\tDIRECTORY\t\n")
	all := weights(queues, 0.8)
	for _, n := range []int{1, 2, 4, 8} {
		printf("%d to %d", n, n+1)
		for _, p := range placements {
			before := p.place(all, n)
			after := p.place(all, n+1)
			if p.grow != nil {
				after = p.grow(all, before, n)
			}
			moved, traffic := moves(all, before, after)
			printf("\t%d\t%.1f %%", moved, 100*traffic)
		}
		printf("\n")
	}
	printf("\n3. A cell is lost for %d s. The system uses %.0f %% of its capacity, with skew 0.8 and a directory.\n\n", outage, 100*busy)
	printf("CELLS\tQUEUES THAT STOP\tTRAFFIC THAT STOPS\tMESSAGES THAT WAIT\tCAUGHT UP AFTER\n")
	for _, n := range cellCounts[1:] {
		l := lose(all, directory(all, n), n)
		printf("%d\t%.1f %%\t%.1f %%\t%.0f\t%.0f s\n", n, 100*l.queues, 100*l.traffic, l.waiting, l.catchUp)
	}
	printf("\n4. A queue moves to another cell: %d messages/s, consumers take %d messages/s.\n\n", moveRate, consumerRate)
	printf("BACKLOG\tRULE\tLOST\tOUT OF ORDER\tOLD CELL EMPTY AFTER\tLONGEST WAIT\n")
	for _, backlog := range []int{0, 1000, 10_000} {
		for _, rule := range []moveRule{drainFirst, bothAtOnce} {
			m := move(backlog, rule)
			printf("%d\t%s\t%d\t%d\t%.2f s\t%.2f s\n", backlog, rule, m.lost, m.disordered, m.drained, m.longest)
		}
	}
	return table.Flush()
}

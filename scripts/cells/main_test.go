package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageHasTheOutput(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	require.NoError(t, report(&text))
	page, err := os.ReadFile("../../docs/scale.md")
	require.NoError(t, err)
	for _, table := range strings.Split(text.String(), "\n\n") {
		require.Contains(t, string(page), strings.TrimSpace(table), "docs/scale.md: run go run ./scripts/cells")
	}
}

func TestAddingACellMovesOnlyToTheNewCell(t *testing.T) {
	t.Parallel()
	all := weights(500, 0.8)
	for _, cells := range []int{1, 3, 7} {
		for _, after := range [][]int{rendezvous(all, cells+1), growDirectory(all, directory(all, cells), cells)} {
			before := rendezvous(all, cells)
			if !slices.Equal(after, rendezvous(all, cells+1)) {
				before = directory(all, cells)
			}
			for q := range all {
				require.True(t, after[q] == before[q] || after[q] == cells, "queue %d", q)
			}
		}
	}
	grown := growDirectory(all, directory(all, 4), 4)
	require.InDelta(t, 0.2, loads(all, grown, 5)[4], 0.01)
}

func TestOneQueueCannotUseTwoCells(t *testing.T) {
	t.Parallel()
	all := weights(100, 2)
	require.InDelta(t, capacity/all[0], throughput(all, directory(all, 64), 64), 0.01)
	require.InDelta(t, capacity, throughput(all, modulo(all, 1), 1), 0.01)
}

func TestTheLossOfACell(t *testing.T) {
	t.Parallel()
	l := lose(weights(1000, 0), directory(weights(1000, 0), 10), 10)
	require.InDelta(t, 0.1, l.queues, 1e-9)
	require.InDelta(t, 0.1, l.traffic, 1e-9)
	require.InDelta(t, busy*capacity*outage, l.waiting, 1)
	require.InDelta(t, busy*outage/(1-busy), l.catchUp, 0.1)
}

// A move must lose nothing, and the rule of the page must keep the order. Without the rule the order is lost.
func TestAMoveKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for _, backlog := range []int{0, 1, 999, 5000} {
		m := move(backlog, drainFirst)
		require.Zero(t, m.lost)
		require.Zero(t, m.disordered)
		require.InDelta(t, float64(backlog)/consumerRate, m.drained, 0.01)
	}
	m := move(5000, bothAtOnce)
	require.Zero(t, m.lost)
	require.NotZero(t, m.disordered)
}

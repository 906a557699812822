package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	require.Zero(t, quantile(nil, 0.5))
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.01: 1, 0.5: 50, 0.95: 95, 0.99: 99, 1: 100} {
		require.Equal(t, want, quantile(hundred, q), "%g", q)
	}
	require.Equal(t, time.Duration(7), quantile([]time.Duration{7}, 0.01))
}

func TestOnlyBrokenPromisesBreakAReport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		add     func(out *report)
		verdict string
		broken  bool
	}{
		{"fast", func(out *report) { out.quick("x", time.Second, time.Second) }, met, false},
		{"slow", func(out *report) { out.quick("x", time.Second+1, time.Second) }, missed, false},
		{"below", func(out *report) { out.below("x", "%.1f", 0.9, 1) }, met, false},
		{"not below", func(out *report) { out.below("x", "%.1f", 1, 1) }, missed, false},
		{"as many", func(out *report) { out.count("x", 1, 1) }, met, false},
		{"more", func(out *report) { out.count("x", 2, 1) }, missed, false},
		{"fewer", func(out *report) { out.count("x", 0, 1) }, missed, false},
		{"never", func(out *report) { out.never("x", 0) }, met, false},
		{"once", func(out *report) { out.never("x", 1) }, violated, true},
		{"failed", func(out *report) { out.failed(errors.New("x")) }, violated, true},
		{"noted", func(out *report) { out.note("x", "y") }, noTarget, false},
	} {
		out := newReport()
		out.begin("measure")
		c.add(out)
		require.Equal(t, c.verdict, out.figures[0].verdict, c.name)
		require.Equal(t, c.broken, out.broken, c.name)
		out.note("later", "fine")
		require.Equal(t, c.broken, out.broken, "%s: and stays so", c.name)
		var text strings.Builder
		require.NoError(t, out.write(&text))
		require.Contains(t, text.String(), c.verdict)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all, err := choose("")
	require.NoError(t, err)
	require.Len(t, all, len(measures))
	some, err := choose("mix,wake")
	require.NoError(t, err)
	require.Len(t, some, 2)
	require.Equal(t, "wake", some[0].name)
	_, err = choose("wake,nap")
	require.ErrorContains(t, err, `no measure "nap"`)
}

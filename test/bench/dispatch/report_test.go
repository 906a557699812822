package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReportOfPromises(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts load.Counts
		want   string // the values in the order of the report
		broken bool
	}{
		{load.Counts{Pushed: 4, Delivered: 4}, "0 0 0 0", false},
		{load.Counts{Lost: 1}, "1 0 0 0", true},
		{load.Counts{Stuck: 3}, "0 3 0 0", true},
		{load.Counts{Duplicates: 1, Redelivered: 1, Unexpected: 1}, "0 0 3 0", true},
		{load.Counts{Disordered: 2}, "0 0 0 2", true},
	} {
		out := newReport()
		out.promises("", c.counts, true)
		var values []string
		for _, f := range out.figures {
			values = append(values, f.value)
		}
		require.Equal(t, c.want, strings.Join(values, " "))
		require.Equal(t, c.broken, out.broken)
		unordered := newReport()
		unordered.promises("", load.Counts{Disordered: 1}, false)
		require.False(t, unordered.broken)
	}
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
		require.Equal(t, c.broken, out.broken, "%s: a later figure does not change the verdict", c.name)
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

package rig

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A missed target must not break a report. A lost message, a figure beyond its limit and a failed measure must break it,
// even if other figures follow.
func TestOnlyLimitsBreakAReport(t *testing.T) {
	t.Parallel()
	promises := func(c load.Counts, ordered bool) func(*Report) {
		return func(out *Report) { out.Promises("", c, ordered) }
	}
	for name, c := range map[string]struct {
		add     func(out *Report)
		verdict string
	}{
		"fast":       {func(out *Report) { out.Quick("x", time.Second, time.Second) }, "met"},
		"slow":       {func(out *Report) { out.Quick("x", time.Second+1, time.Second) }, "missed"},
		"below":      {func(out *Report) { out.Below("x", "%.1f", 0.9, 1) }, "met"},
		"not below":  {func(out *Report) { out.Below("x", "%.1f", 1, 1) }, "missed"},
		"as many":    {func(out *Report) { out.Count("x", 1, 1) }, "met"},
		"fewer":      {func(out *Report) { out.Count("x", 0, 1) }, "missed"},
		"never":      {func(out *Report) { out.Never("x", 0) }, "met"},
		"once":       {func(out *Report) { out.Never("x", 1) }, "BROKEN"},
		"small":      {func(out *Report) { out.Memory("x", 1<<20, 1<<20) }, "met"},
		"large":      {func(out *Report) { out.Memory("x", 1<<20+1, 1<<20) }, "BROKEN"},
		"late":       {func(out *Report) { out.Within("x", time.Second+1, time.Second) }, "BROKEN"},
		"as slow":    {func(out *Report) { out.Ratio("x", 3, 2, 1.5) }, "met"},
		"slower":     {func(out *Report) { out.Ratio("x", 4, 2, 1.5) }, "BROKEN"},
		"noted":      {func(out *Report) { out.Note("x", "y") }, "y"},
		"kept":       {promises(load.Counts{Pushed: 4, Delivered: 4}, true), "met"},
		"lost":       {promises(load.Counts{Lost: 1}, true), "BROKEN"},
		"stuck":      {promises(load.Counts{Stuck: 1}, true), "BROKEN"},
		"twice":      {promises(load.Counts{Duplicates: 1}, true), "BROKEN"},
		"again":      {promises(load.Counts{Redelivered: 1}, true), "BROKEN"},
		"unexpected": {promises(load.Counts{Unexpected: 1}, true), "BROKEN"},
		"disordered": {promises(load.Counts{Disordered: 1}, true), "BROKEN"},
		"unordered":  {promises(load.Counts{Disordered: 1}, false), "met"},
		"failed": {func(out *Report) {
			require.NoError(t, Run(t.Context(), 1, []Measure[int]{{"m", func(context.Context, int, *Report) error { return errors.New("x") }}}, out))
		}, "BROKEN"},
	} {
		var text strings.Builder
		out := &Report{out: &text}
		c.add(out)
		out.Note("later", "fine")
		require.Contains(t, text.String(), c.verdict, name)
		require.Equal(t, c.verdict == "BROKEN", out.broken, name)
	}
}

func TestMeasuresAreChosenByName(t *testing.T) {
	t.Parallel()
	all := []Measure[int]{{"wake", nil}, {"idle", nil}, {"mix", nil}}
	chosen, err := Choose(all, nil)
	require.NoError(t, err)
	require.Len(t, chosen, 3)
	chosen, err = Choose(all, []string{"mix", "wake"})
	require.NoError(t, err)
	require.Len(t, chosen, 2)
	require.Equal(t, "wake", chosen[0].Name)
	_, err = Choose(all, []string{"wake", "nap"})
	require.ErrorContains(t, err, `no measure "nap"`)
}

package chart_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
)

// A chart contains its values, describes them in words, and escapes names.
func TestLines(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 5, 16, 8, 0, 0, 0, time.UTC)
	span := chart.Span{From: from, To: from.Add(4 * time.Minute), Step: time.Minute}
	drawn := string(chart.Lines(`"<x>"`, "/s", span, []chart.Line{{Name: "<pushed>", Class: "a", Points: []chart.Point{{from.Add(time.Minute), 3}, {from.Add(2 * time.Minute), 1.5}}}}))
	require.Contains(t, drawn, `data-values="0 3 1.5 0 0"`)
	require.Contains(t, drawn, "&lt;pushed&gt; 1.5/s, at most 3/s")
	require.NotRegexp(t, "<(x|pushed)>", drawn)
	require.NotContains(t, drawn, "style=")
	require.Contains(t, drawn, "08:04")

	// A value that is not written yet is drawn as missing, not as 0.
	span.Open = true
	drawn = string(chart.Lines("x", "", span, []chart.Line{{Name: "a", Points: []chart.Point{{from.Add(3 * time.Minute), 3}}}, {Name: "b"}}))
	require.Contains(t, drawn, `data-values="0 0 0 3 –"`)
	require.Contains(t, drawn, `data-values="0 0 0 0 –"`)
	for _, points := range [][]chart.Point{nil, {{from.Add(3 * time.Minute), 0}, {from.Add(4 * time.Minute), 0}}} {
		drawn = string(chart.Lines("x", "", span, []chart.Line{{Name: "a", Points: points}}))
		require.Contains(t, drawn, `data-values="0 0 0 – –"`)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.731: "0.73", 4: "4", 4.32: "4.32", 12.34: "12.3", 999: "999", 1000: "1k", 1234: "1.23k", 123456: "123k", 34e6: "34M"} {
		require.Equal(t, want, chart.Short(v))
	}
}

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

	// The values of the step that has not ended are live: dashed, and not the latest values of the words.
	span.Open = true
	drawn = string(chart.Lines("x", "", span, []chart.Line{{Name: "a", Class: "a", Points: []chart.Point{{from.Add(3 * time.Minute), 3}, {from.Add(4 * time.Minute), 1}}}}))
	require.Contains(t, drawn, `data-values="0 0 0 3 1" data-live-end`)
	require.Contains(t, drawn, `<path class="line live a" d="M750.0 40.0L1000.0 120.0"/>`)
	require.Contains(t, drawn, `<path class="line a" d="M0.0 160.0L250.0 160.0L500.0 160.0L750.0 40.0"`)
	require.Contains(t, drawn, `aria-label="x: a 3, at most 3"`)
}

// An axis has readable units: 2 s instead of 2000, and 34 MB instead of 34000000.
func TestAxesHaveReadableUnits(t *testing.T) {
	t.Parallel()
	for unit, values := range map[string]map[float64]string{
		chart.Milliseconds: {10: "10 ms", 2000: "2 s", 1500: "1.5 s", 240_000: "4 min"}, chart.Bytes: {999: "999 B", 34e6: "34 MB", 1200: "1.2 kB"},
		chart.PerSecond: {1200: "1.2k/s"}, "": {1200: "1.2k"},
	} {
		for v, want := range values {
			require.Equal(t, want, chart.Amount(v, unit))
		}
	}
	from := time.Date(2026, 5, 16, 8, 0, 0, 0, time.UTC)
	span := chart.Span{From: from, To: from.Add(4 * time.Minute), Step: time.Minute}
	for unit, most := range map[string]string{chart.Milliseconds: "2 s", chart.Bytes: "2 kB", chart.PerSecond: "2k", "": "2k"} {
		drawn := string(chart.Lines("x", unit, span, []chart.Line{{Name: "a", Class: "a", Points: []chart.Point{{from, 1900}}}}))
		require.Contains(t, drawn, `aria-hidden="true"><span>`+most+"</span>")
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.731: "0.73", 4: "4", 4.32: "4.32", 12.34: "12.3", 999: "999", 1000: "1k", 1234: "1.23k", 123456: "123k", 34e6: "34M"} {
		require.Equal(t, want, chart.Short(v))
	}
}

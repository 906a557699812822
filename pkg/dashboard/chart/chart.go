// Package chart draws small charts as SVG.
//
// A chart contains no style and no script. Its parts have classes, and the style sheet of the dashboard sets
// their colors. So a chart works on dark and light pages, and with a strict content security policy. Texts are
// escaped. The package imports no package of Belfry, and every package may import it.
package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Point is a value at an instant.
type Point struct {
	At    time.Time
	Value float64
}

// Line is a named line of a chart. Class names its color: a, b, c or d.
type Line struct {
	Name, Class string
	Points      []Point
}

// width and height are the size of a chart in units of its view box. The style sheet stretches the chart to the page.
const width, height = 1000.0, 160.0

// Span is the time that a chart shows.
type Span struct {
	From, To time.Time
	// Step is the time between two points. A missing point is 0.
	Step time.Duration
	// Open is true if the last step has not ended. Its values are those until now: Lines draws them dashed, and marks
	// them as live.
	Open bool
}

// Units of a chart. Milliseconds and bytes are shown in a larger unit where that is shorter.
const (
	PerSecond    = "/s"
	Milliseconds = " ms"
	Bytes        = " B"
)

// Lines draws lines over a span. The labels for screen readers and for hovering have unit after each value. unit may be another
// text than the constants.
func Lines(title, unit string, span Span, lines []Line) template.HTML {
	most := 0.0
	for _, line := range lines {
		for _, p := range line.Points {
			most = max(most, p.Value)
		}
	}
	most = ceiling(most)
	b := &strings.Builder{}
	fmt.Fprintf(b, `<div class="plot"><div class="rises" aria-hidden="true"><span>%s</span><span>%s</span><span>0</span></div>`, axis(most, unit), axis(most/2, unit))
	fmt.Fprintf(b, `<svg class="chart" viewBox="0 0 %g %g" preserveAspectRatio="none" role="img" tabindex="0" aria-label="%s" data-chart data-from="%d" data-to="%d" data-unit="%s">`,
		width, height, html.EscapeString(title+": "+Summary(unit, span.ended(lines))), span.From.Unix(), span.To.Unix(), html.EscapeString(unit))
	for i := range 3 {
		y := height * float64(i) / 2
		fmt.Fprintf(b, `<line class="grid" x1="0" x2="%g" y1="%g" y2="%g"/>`, width, y, y)
	}
	for _, line := range lines {
		values := fill(span, line.Points)
		ended := len(values)
		if span.Open {
			ended--
			fmt.Fprintf(b, `<path class="line live %s" d="%s"/>`, line.Class, path(values, ended-1, len(values), most))
		}
		fmt.Fprintf(b, `<path class="line %s" d="%s" data-name="%s" data-values="%s"%s/>`,
			line.Class, path(values, 0, ended, most), html.EscapeString(line.Name), joined(values), map[bool]string{true: " data-live-end"}[span.Open])
	}
	b.WriteString(`</svg><div class="times" aria-hidden="true">`)
	for i := range 5 {
		at := span.From.Add(span.To.Sub(span.From) * time.Duration(i) / 4)
		fmt.Fprintf(b, `<span data-clock="%d">%s</span>`, at.Unix(), clock(at, span))
	}
	b.WriteString(`</div></div>`)
	return template.HTML(b.String()) //nolint:gosec // every text is escaped
}

func clock(at time.Time, span Span) string {
	if span.To.Sub(span.From) > 36*time.Hour {
		return at.UTC().Format("Jan 2")
	}
	return at.UTC().Format("15:04")
}

// ended returns lines without the values of a step that has not ended.
func (s Span) ended(lines []Line) []Line {
	if !s.Open {
		return lines
	}
	out := slices.Clone(lines)
	for i := range out {
		out[i].Points = slices.DeleteFunc(slices.Clone(out[i].Points), func(p Point) bool { return !p.At.Before(s.To) })
	}
	return out
}

// path returns the outline of the values from one step until another.
func path(values []float64, from, until int, most float64) string {
	b := &strings.Builder{}
	for i := from; i < until; i++ {
		x := width * float64(i) / float64(max(1, len(values)-1))
		y := height - height*values[i]/most
		fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(i-from, 1)], x, y)
	}
	return b.String()
}

// fill returns a value for each step of a span.
func fill(span Span, points []Point) []float64 {
	step := max(span.Step, time.Second)
	values := make([]float64, max(2, int(span.To.Sub(span.From)/step)+1))
	for _, p := range points {
		if i := int(p.At.Sub(span.From) / step); i >= 0 && i < len(values) {
			values[i] = p.Value
		}
	}
	return values
}

func joined(values []float64) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = strconv.FormatFloat(math.Round(v*100)/100, 'g', -1, 64)
	}
	return strings.Join(texts, " ")
}

// Summary describes lines in words: the latest and the largest value of each line.
func Summary(unit string, lines []Line) string {
	texts := make([]string, 0, len(lines))
	for _, line := range lines {
		most, latest := 0.0, 0.0
		for _, p := range line.Points {
			most, latest = max(most, p.Value), p.Value
		}
		texts = append(texts, fmt.Sprintf("%s %s, at most %s", line.Name, Amount(latest, unit), Amount(most, unit)))
	}
	return strings.Join(texts, "; ")
}

// Amount formats a value with its unit, for example 1.2k/s, 10 ms, 2 s or 34 MB.
func Amount(v float64, unit string) string {
	switch {
	case unit == Milliseconds && math.Abs(v) >= 120_000:
		return Short(v/60_000) + " min"
	case unit == Milliseconds && math.Abs(v) >= 1000:
		return Short(v/1000) + " s"
	case unit == Bytes && math.Abs(v) >= 1000:
		text := Short(v)
		return text[:len(text)-1] + " " + text[len(text)-1:] + "B"
	}
	return Short(v) + unit
}

// axis formats a value beside an axis. A unit that the legend names is left out.
func axis(v float64, unit string) string {
	if unit == Milliseconds || unit == Bytes {
		return Amount(v, unit)
	}
	return Short(v)
}

// Spark draws a line without labels, for a row of a table.
func Spark(label string, values []float64) template.HTML {
	const w, h = 96.0, 22.0
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	b := &strings.Builder{}
	for i, v := range values {
		y := h - 1
		if most > 0 {
			y = h - 1 - (h-2)*v/most
		}
		fmt.Fprintf(b, "%c%.0f %.1f", "ML"[min(i, 1)], w*float64(i)/float64(max(1, len(values)-1)), y)
	}
	class := "spark"
	if most == 0 {
		class = "spark flat"
	}
	return template.HTML(fmt.Sprintf(`<svg class="%s" viewBox="0 0 %g %g" role="img" aria-label="%s"><path class="line a" d="%s"/></svg>`, //nolint:gosec // the text is escaped
		class, w, h, html.EscapeString(label), b.String()))
}

// ceiling returns a round number that is at least v and more than 0.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	scale := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 4, 5, 10} {
		if v <= m*scale {
			return m * scale
		}
	}
	return 10 * scale
}

// Short formats a number with at most three digits and a suffix, for example 1.2k or 34M.
func Short(v float64) string {
	for _, suffix := range []string{"", "k", "M", "G", "T"} {
		switch {
		case math.Abs(v) < 9.995 && v != math.Trunc(v):
			return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".") + suffix
		case math.Abs(v) < 99.95 && v != math.Trunc(v):
			return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + suffix
		case math.Abs(v) < 999.5:
			return strconv.FormatFloat(v, 'f', 0, 64) + suffix
		}
		v /= 1000
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + "P"
}

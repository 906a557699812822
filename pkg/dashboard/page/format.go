package page

import (
	"crypto/rand"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/chart"
)

// functions are the functions of the templates.
var functions = template.FuncMap{
	"num": Num, "ago": ago, "age": func(n int64) template.HTML { return age(float64(n)) }, "agef": age, "moment": moment,
	"secs": func(f float64) string { return Span(time.Duration(f * float64(time.Second))) }, "hidden": hidden, "table": newTable, "stack": stack,
	"name": name, "cut": cut, "said": said, "exact": exact, "group": group, "visible": Visible,
	"short": chart.Short, "ms": millis, "link": Link, "groupName": GroupName, "plural": Plural, "len64": func(n int) int64 { return int64(n) }, "inc": func(n int) int64 { return int64(n) + 1 }, "inc64": func(n int64) int64 { return n + 1 },
	"ptr": func(at time.Time) *time.Time { return &at }, "optional": Optional[string], "ratio": Optional[float64], "flag": Optional[bool], "dict": dict,
	"tabsOf": tabsOf, "statusText": statusText, "bytes": size, "inWords": inWords, "counted": counted, "done": Done, "spaced": spaced,
	"least": AtLeast, "share": Share, "once": rand.Text, "operation": operation, "asset": assetPath, "per": per, "each": each,
}

// AtLeast formats a number. If more is true, it adds a plus, because the number is a lower bound.
func AtLeast(n int64, more bool) string {
	if more {
		return Num(n) + "+"
	}
	return Num(n)
}

// Share formats a part of a whole as a percentage.
func Share(part, whole int64) string {
	percent := 100 * float64(part) / float64(max(1, whole))
	switch {
	case part == 0:
		return "0\u202f%"
	case percent < 0.1:
		return "less than 0.1\u202f%"
	case percent < 10:
		return strconv.FormatFloat(percent, 'f', 1, 64) + "\u202f%"
	}
	return strconv.FormatFloat(percent, 'f', 0, 64) + "\u202f%"
}

// Num formats a number with a narrow space between thousands.
func Num(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// Span formats a duration with its two largest units.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second != 0:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, unit := range units {
		n := d / unit.size
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", n, unit.name)
		if i+1 < len(units) && n < 10 {
			if rest := d % unit.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// millis formats a number of milliseconds.
func millis(ms float64) string {
	switch {
	case ms <= 0:
		return "–"
	case ms >= 1000:
		return Span(time.Duration(ms * float64(time.Millisecond)))
	}
	return chart.Short(ms) + " ms"
}

// ago formats the time since an instant. A script updates the text. The tooltip has the exact instant.
func ago(at *time.Time) template.HTML {
	if at == nil || at.IsZero() {
		return `<span class="none">never</span>`
	}
	return stamp(*at, "data-ago", Span(time.Since(*at).Truncate(time.Second))+" ago")
}

// age formats an age in seconds at the time of the read. A script updates the text.
func age(seconds float64) template.HTML {
	old := time.Duration(seconds * float64(time.Second))
	return stamp(time.Now().Add(-old), "data-age", Span(old))
}

// moment formats an instant.
func moment(at time.Time) template.HTML {
	return stamp(at, "data-at", at.UTC().Format("2006-01-02 15:04:05"))
}

func stamp(at time.Time, kind, text string) template.HTML {
	exact := at.UTC().Format("2006-01-02T15:04:05.000Z")
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" %s>%s</time>`, exact, exact, kind, text)) //nolint:gosec // the HTML has no text of a client
}

// Link returns the URL of a page with a query of names and values. Empty values are left out.
func Link(page string, pairs ...string) template.URL {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if page == "" {
		page = "./"
	}
	if len(query) > 0 {
		page += "?" + query.Encode()
	}
	return template.URL(page) //nolint:gosec // the query is encoded
}

// QueueMode is the name of the reader without a group.
const QueueMode = "__QUEUE_MODE__"

// GroupName returns the displayed name of a group.
func GroupName(name string) string {
	if name == QueueMode {
		return "(no group)"
	}
	return name
}

// Plural formats a number with its noun.
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Num(n) + " " + many
}

// Optional returns the value of a pointer, or the zero value for nil.
func Optional[T any](value *T) (v T) {
	if value != nil {
		v = *value
	}
	return v
}

// per formats the quotient of two counts.
func per(n, of int64) string {
	if of == 0 {
		return "–"
	}
	return strconv.FormatFloat(float64(n)/float64(of), 'f', 1, 64)
}

// each formats the mean duration of several operations. seconds is their total duration.
func each(seconds float64, of int64) string {
	if of == 0 {
		return "–"
	}
	return millis(seconds * 1000 / float64(of))
}

// operation returns the displayed name of a group commit operation.
func operation(name string) string {
	switch name {
	case "take":
		return "pop with autoAck"
	case "claim":
		return "pop"
	case "held":
		return "ack of a contended partition"
	}
	return name
}

// dict makes a map of alternating names and values, for a template with several parameters.
func dict(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if name, ok := pairs[i].(string); ok {
			out[name] = pairs[i+1]
		}
	}
	return out
}

// shell quotes a text for a shell.
func shell(text string) string {
	plain := text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,") == ""
	if plain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Choice is a value in a list of choices, with its displayed text.
type Choice struct{ Value, Text string }

// Choices returns a list of choices. pairs alternates between values and texts.
func Choices(pairs ...string) []Choice {
	list := make([]Choice, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, Choice{pairs[i], pairs[i+1]})
	}
	return list
}

package wire

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// instantLayouts has the accepted forms of a timestamp. A timestamp without a zone
// is in UTC.
var instantLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999-07",
	"2006-01-02T15:04:05.999999999-0700", "2006-01-02 15:04:05.999999999-0700",
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
}

// parseInstant reads a timestamp in the years 1 to 9999. For an accepted text it
// never returns the zero time, because callers use the zero time for "not sent".
//
// If a client does not escape the plus of 2026-05-16T08:41:27+02:00 in a query, the
// server decodes it as a space. So a space after the time of day counts as a plus.
func parseInstant(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if before, zone, found := cutLast(s, " "); found && strings.Contains(before, ":") {
		s = before + "+" + zone
	}
	for _, layout := range instantLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			if t.IsZero() {
				t = t.Add(time.Microsecond)
			}
			year := t.UTC().Year()
			return t, 1 <= year && year <= 9999
		}
	}
	return time.Time{}, false
}

// cutLast is like strings.Cut, but cuts at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// Instant reads the first or last instant of a list. For an empty text it returns the zero time.
func Instant(field, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	at, ok := parseInstant(s)
	if !ok {
		return time.Time{}, queue.Invalidf("%s is %q: it must be an instant such as 2026-05-16T08:41:27.123Z", field, Clip(s))
	}
	return at, nil
}

// Timestamp reads a timestamp that is a position in a queue. The parameter or has the other
// accepted values, for the error text. An example is "now or ".
func Timestamp(field, s, or string) (time.Time, error) {
	if at, ok := parseInstant(s); ok {
		return at, nil
	}
	return time.Time{}, queue.Invalidf("%s is %q: it must be %sa timestamp like 2026-05-16T08:41:27.123Z (RFC 3339; without a zone it is UTC)",
		field, Clip(s), or)
}

// TimestampValue is like Timestamp, for a JSON value that must be a string.
func TimestampValue(field string, value jsontext.Value) (time.Time, error) {
	s, ok := Text(value)
	if !ok {
		return time.Time{}, queue.Invalidf("%s must be a timestamp like \"2026-05-16T08:41:27.123Z\", not %s", field, Clip(string(value)))
	}
	return Timestamp(field, s, "")
}

// FormatMillis writes an instant in UTC with milliseconds. Most answers use
// this form.
func FormatMillis(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

package wire

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// instantLayouts are the forms of a timestamp that clients send. A timestamp
// without a zone is in UTC.
var instantLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999-07",
	"2006-01-02T15:04:05.999999999-0700", "2006-01-02 15:04:05.999999999-0700",
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
}

// parseInstant never returns the zero time for a text that it accepts, because
// callers use the zero time for "not sent". It accepts the years 1 to 9999.
//
// A query decodes the plus of 2026-05-16T08:41:27+02:00 to a space, unless the
// client encodes it. So a space after the time of day stands for a plus.
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

// cutLast is strings.Cut at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// Instant reads a bound of a list; an empty text is the zero time.
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

// Timestamp reads a position in a queue. The error text puts or, the other
// values that the field accepts, before the description of a timestamp.
func Timestamp(field, s, or string) (time.Time, error) {
	if at, ok := parseInstant(s); ok {
		return at, nil
	}
	return time.Time{}, queue.Invalidf("%s is %q: it must be %sa timestamp like 2026-05-16T08:41:27.123Z (RFC 3339; without a zone it is UTC)",
		field, Clip(s), or)
}

// TimestampValue is Timestamp for a JSON value, which must be a string.
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

package wire

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Text returns the value of a JSON string. ok is false if raw is not a string.
func Text(raw jsontext.Value) (value string, ok bool) {
	if raw.Kind() != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	// The only possible error is a lone surrogate, which becomes U+FFFD.
	unquoted, _ := jsontext.AppendUnquote(nil, raw)
	return string(unquoted), true
}

// ConsumerGroup returns the group that value names. If value is not a string or is
// empty, it returns queue.DefaultGroup.
func ConsumerGroup(value jsontext.Value) string {
	if group, ok := Text(value); ok && group != "" {
		return group
	}
	return queue.DefaultGroup
}

// Bool reads true or false.
func Bool(field string, value jsontext.Value) (bool, error) {
	switch value.Kind() {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	default:
		return false, queue.Invalidf("%s must be true or false, not %s", field, Clip(string(value)))
	}
}

// WholeNumber reads a JSON number without a fraction.
func WholeNumber(field string, value jsontext.Value) (int64, error) {
	if value.Kind() == '0' {
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return n, nil
		}
		// 3e2 and 300.0 are whole numbers too.
		if f, err := strconv.ParseFloat(string(value), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), nil
		}
	}
	return 0, queue.Invalidf("%s must be a whole number, not %s", field, Clip(string(value)))
}

// CheckName returns an error if name cannot be the name of a queue, partition, group
// or tag.
func CheckName(field, name string) error { return queue.CheckName(field, name) }

// ReplaceNUL replaces each NUL, which Postgres cannot store, with U+FFFD.
func ReplaceNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// Clip shortens a value for an error text to at most 60 bytes.
func Clip(s string) string {
	if len(s) > 60 {
		return s[:57] + "..."
	}
	return s
}

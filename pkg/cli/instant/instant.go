// Package instant parses the times and durations that users type.
//
// The package imports no other package of Belfry.
package instant

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse parses a time: RFC 3339, now, or a duration before now such as 15m, 2d or '15m ago'.
func Parse(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	ago, err := Duration(strings.TrimSpace(strings.TrimSuffix(text, "ago")))
	if err != nil {
		return time.Time{}, fmt.Errorf("is %q: it must be an instant such as 2026-05-16T08:41:27Z, or a time before now such as 15m or 2d", text)
	}
	return now.Add(-ago), nil
}

// Duration is time.ParseDuration with the additional unit d (24 hours). A value with d is a whole number.
func Duration(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

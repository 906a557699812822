// Package check makes the errors of invalid configuration values. Each error names the key, the value
// and the rule.
//
// It imports no other package of Belfry. It is on floor 0 and importable from floor 1 upwards.
package check

import (
	"fmt"
	"time"
)

// That returns nil if ok is true, and an error with this text otherwise.
func That(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// AtLeast returns an error if value is below least.
func AtLeast(key string, value, least int) error {
	return That(value >= least, "%s is %d: it must be at least %d", key, value, least)
}

// Positive returns an error if d is not above 0.
func Positive(key string, d time.Duration) error {
	return That(d > 0, "%s is %s: it must be positive", key, d)
}

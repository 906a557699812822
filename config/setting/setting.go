package setting

import (
	"fmt"
	"time"
)

// Check returns nil if ok is true, and an error with this text otherwise.
func Check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// AtLeast returns an error if value is below least.
func AtLeast(key string, value, least int) error {
	return Check(value >= least, "%s is %d: it must be at least %d", key, value, least)
}

// Positive returns an error if d is not above 0.
func Positive(key string, d time.Duration) error {
	return Check(d > 0, "%s is %s: it must be positive", key, d)
}

package setting

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Check returns nil if ok is true. Otherwise it returns an error with the formatted text.
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

// Hidden is what a Secret prints.
const Hidden = "***"

// Secret is a text that must not be printed.
type Secret string

// Reveal returns the text. Do not print it, and do not put it into an error.
func (s Secret) Reveal() string { return string(s) }

// String returns ***.
func (Secret) String() string { return Hidden }

// GoString returns ***.
func (Secret) GoString() string { return Hidden }

// Format writes *** for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Hidden) }

// MarshalText returns ***. JSON and YAML use it too.
func (Secret) MarshalText() ([]byte, error) { return []byte(Hidden), nil }

// MarshalJSON returns *** as a JSON string.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Hidden + `"`), nil }

// LogValue returns *** for log/slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(Hidden) }

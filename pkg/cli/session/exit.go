package session

import (
	"errors"

	"github.com/belfry-mq/belfry/pkg/client"
)

// The exit codes that differ from 0 (done) and 1 (failed, or what the command line names does not exist).
const (
	// ExitUsage is a wrong command line, or a difference that belfry apply --dry-run found.
	ExitUsage = 2
	// ExitRefused is a refused token.
	ExitRefused = 3
	// ExitEmpty is a pop that found no message.
	ExitEmpty = 4
)

// ExitError is a failure with an exit code of its own. An empty text prints nothing.
type ExitError struct {
	Code int
	Text string
}

func (e *ExitError) Error() string { return e.Text }

// ErrEmpty is the end of a pop that found no message.
var ErrEmpty = &ExitError{Code: ExitEmpty}

// UsageError is a mistake of the command line that cobra cannot find.
func UsageError(text string) error { return &ExitError{Code: ExitUsage, Text: text} }

// ExitCode returns the exit code of a failed command, and whether its error is to be printed.
func ExitCode(err error) (code int, printed bool) {
	var own *ExitError
	switch {
	case errors.As(err, &own):
		return own.Code, own.Text != ""
	case errors.Is(err, client.ErrForbidden), errors.Is(err, client.ErrUnauthorized):
		return ExitRefused, true
	default:
		return 1, true
	}
}

package cli

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

// exitError is a failure with an exit code of its own. An empty text prints nothing.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// errEmpty is the end of a pop that found no message.
var errEmpty = &exitError{code: ExitEmpty}

// usageError is a mistake of the command line that cobra cannot find.
func usageError(text string) error { return &exitError{code: ExitUsage, text: text} }

// ExitCode returns the exit code of a failed command, and whether its error is to be printed.
func ExitCode(err error) (code int, printed bool) {
	var own *exitError
	switch {
	case errors.As(err, &own):
		return own.code, own.text != ""
	case errors.Is(err, client.ErrForbidden), errors.Is(err, client.ErrUnauthorized):
		return ExitRefused, true
	default:
		return 1, true
	}
}

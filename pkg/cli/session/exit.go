package session

import (
	"errors"

	"github.com/belfry-mq/belfry/pkg/client"
)

// The exit codes other than 0 (done) and 1 (the command failed, or a named object does not exist).
const (
	// ExitUsage means a wrong command line, or a difference that belfry apply --dry-run found.
	ExitUsage = 2
	// ExitRefused means that the server refused the token.
	ExitRefused = 3
	// ExitEmpty means that a pop found no message.
	ExitEmpty = 4
)

// ExitError is an error with a specific exit code. If Text is empty, nothing is printed.
type ExitError struct {
	Code int
	Text string
}

func (e *ExitError) Error() string { return e.Text }

// ErrEmpty is the error of a pop that found no message.
var ErrEmpty = &ExitError{Code: ExitEmpty}

// UsageError returns an error for a wrong command line.
func UsageError(text string) error { return &ExitError{Code: ExitUsage, Text: text} }

// ExitCode returns the exit code for an error of a command, and whether the error is printed.
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

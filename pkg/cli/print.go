package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/cli/progress"
)

// value prints a value that is no answer of the server.
func (s *session) value(value any, rows string, columns []output.Column) error {
	raw, err := output.Compact(value)
	if err != nil {
		return err
	}
	return s.Answer(raw, rows, columns)
}

// text prints lines for people.
func (s *session) text(text string) error {
	if s.Quiet {
		return nil
	}
	return s.Write([]byte(text))
}

// note prints a line for people beside the output, on standard error.
func (s *session) note(text string) {
	if !s.Quiet {
		_, _ = fmt.Fprintln(s.cmd.ErrOrStderr(), text)
	}
}

// newProgress returns a progress that counts units, or nil without a terminal.
func (s *session) newProgress(unit string) *progress.Progress {
	out := s.cmd.ErrOrStderr()
	if s.Quiet || !isTerminal(out) {
		return nil
	}
	return progress.Start(out, unit, time.Now())
}

// rest blocks for d, and returns false at once when ctx ends.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

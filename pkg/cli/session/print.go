package session

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/cli/progress"
)

// Value prints a value that is not an answer of the server.
func (s *Session) Value(value any, rows string, columns output.Columns) error {
	raw, err := output.Compact(value)
	if err != nil {
		return err
	}
	return s.Answer(raw, rows, columns)
}

// Text prints text for people.
func (s *Session) Text(text string) error {
	if s.Quiet {
		return nil
	}
	return s.Write([]byte(text))
}

// Note prints a line for people on standard error.
func (s *Session) Note(text string) {
	if !s.Quiet {
		_, _ = fmt.Fprintln(s.Cmd.ErrOrStderr(), text)
	}
}

// NewProgress returns a Progress that counts units. It returns nil if standard error is not a terminal.
func (s *Session) NewProgress(unit string) *progress.Progress {
	out := s.Cmd.ErrOrStderr()
	if s.Quiet || !IsTerminal(out) {
		return nil
	}
	return progress.Start(out, unit, time.Now())
}

// Sleep blocks for d. If ctx ends first, Sleep returns false at once.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Input reads a file, or standard input for "-". It also returns when the context of the command ends.
func (s *Session) Input(file string) ([]byte, error) {
	if file != "-" {
		return os.ReadFile(file)
	}
	in := s.Cmd.InOrStdin()
	NoteInput(s.Cmd, in)
	return interruptible(s.Cmd.Context(), func() ([]byte, error) { return io.ReadAll(in) })
}

// NoteInput prints a line if the command reads from a terminal, where a person must type.
func NoteInput(cmd *cobra.Command, in io.Reader) {
	if IsTerminal(in) {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "reading standard input until Ctrl-D")
	}
}

// interruptible calls read, and returns at once when ctx ends. In this case read continues until the process ends.
func interruptible[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		value, err := read()
		ended <- outcome{value, err}
	}()
	select {
	case o := <-ended:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, errors.New("interrupted: nothing was changed")
	}
}

// Sure reports whether the command line has --yes.
func (s *Session) Sure() bool { return s.yes }

// Confirm asks the user a question on the terminal. Without a terminal, it requires --yes.
func (s *Session) Confirm(question string) error {
	if s.yes {
		return nil
	}
	in := s.Cmd.InOrStdin()
	if !IsTerminal(in) {
		return UsageError(question + " Add --yes to confirm.")
	}
	_, _ = fmt.Fprint(s.Cmd.ErrOrStderr(), question+" [y/N] ")
	line, err := interruptible(s.Cmd.Context(), func() (string, error) {
		line, _ := bufio.NewReader(in).ReadString('\n') // at the end of the input, line is not yes
		return line, nil
	})
	if err != nil {
		return err
	}
	if given := strings.ToLower(strings.TrimSpace(line)); given != "y" && given != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

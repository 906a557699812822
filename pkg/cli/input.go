package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// input reads a file, or standard input for "-". It returns when the context ends, also while nothing comes.
func (s *session) input(file string) ([]byte, error) {
	if file != "-" {
		return os.ReadFile(file)
	}
	in := s.cmd.InOrStdin()
	NoteInput(s.cmd, in)
	return interruptible(s.cmd.Context(), func() ([]byte, error) { return io.ReadAll(in) })
}

// NoteInput says that a command waits for what a person types.
func NoteInput(cmd *cobra.Command, in io.Reader) {
	if isTerminal(in) {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "reading standard input until Ctrl-D")
	}
}

// interruptible calls read, and returns at once when ctx ends. Then read goes on until the process ends.
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
		return none, &exitError{code: 1, text: "interrupted: nothing was changed"}
	}
}

// confirm asks a question. Without a terminal it wants --yes.
func (s *session) confirm(question string) error {
	if s.yes {
		return nil
	}
	in := s.cmd.InOrStdin()
	if !isTerminal(in) {
		return usageError(question + " Add --yes to confirm.")
	}
	_, _ = fmt.Fprint(s.cmd.ErrOrStderr(), question+" [y/N] ")
	line, err := interruptible(s.cmd.Context(), func() (string, error) {
		line, _ := bufio.NewReader(in).ReadString('\n') // the end of the input is no yes
		return line, nil
	})
	if err != nil {
		return err
	}
	if given := strings.ToLower(strings.TrimSpace(line)); given != "y" && given != "yes" {
		return &exitError{code: 1, text: "nothing was changed"}
	}
	return nil
}

package cli

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/cli/progress"
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

func newPing() *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use: "ping", Short: "Measure how long the server takes to answer", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			if count < 1 {
				return usageError("--count must be at least 1")
			}
			for i := range count {
				began := time.Now()
				var health struct {
					Status  string `json:"status"`
					Version string `json:"version"`
				}
				if err := s.client.Do(cmd.Context(), get("/health", nil), &health); err != nil {
					return err
				}
				err := s.value(map[string]any{
					"server": s.server, "status": health.Status, "version": health.Version, "milliseconds": float64(time.Since(began).Microseconds()) / 1000,
				}, "", []output.Column{{Title: "SERVER", Path: "server"}, {Title: "STATUS", Path: "status"}, {Title: "VERSION", Path: "version"}, {Title: "MS", Path: "milliseconds"}})
				if err != nil {
					return err
				}
				if i+1 < count && !rest(cmd.Context(), time.Second) {
					return nil
				}
			}
			return nil
		},
	}
	addFlags(cmd)
	cmd.Flags().IntVar(&count, "count", 1, "how often, once a second")
	return cmd
}

func newMetrics() *cobra.Command {
	var match string
	cmd := &cobra.Command{
		Use: "metrics", Short: "Print the metrics of the server, as Prometheus reads them", Args: cobra.NoArgs,
		Example: `  belfry metrics --match queue`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			var text []byte
			if err := s.client.Do(cmd.Context(), get("/metrics/prometheus", nil), &text); err != nil {
				return err
			}
			for line := range bytes.Lines(text) {
				if !bytes.Contains(line, []byte(match)) || s.Quiet {
					continue
				}
				if err := s.Write(line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	AddServerFlags(cmd)
	cmd.Flags().StringVar(&match, "match", "", "only lines with this text")
	return cmd
}

// exportPage is how many dead letters one request of the export asks for.
const exportPage = "1000"

func newDeadLetterExport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Print all dead letters with their payloads, one as JSON in each line", Args: cobra.NoArgs,
		Example: `  belfry dlq export --queue orders > dead.ndjson`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newPatientSession(cmd)
			if err != nil {
				return err
			}
			in := &input{session: s}
			query := deadLetterQuery(in, in.text("queue"))
			if in.err != nil {
				return in.err
			}
			if err := in.missing(theFlags(in)); err != nil {
				return err
			}
			query.Set("limit", exportPage)
			return s.exportDeadLetters(query)
		},
	}
	AddServerFlags(cmd)
	cmd.Flags().String("queue", "", "only of this queue")
	deadLetterFilter(cmd.Flags())
	return cmd
}

func (s *session) exportDeadLetters(query url.Values) error {
	total := int64(0)
	var shown *progress.Progress
	if !isTerminal(s.cmd.OutOrStdout()) {
		shown = s.newProgress("dead letters")
	}
	defer shown.End()
	for {
		var page struct {
			Messages   []json.RawMessage `json:"messages"`
			Pagination struct {
				Next *string `json:"next"`
			} `json:"pagination"`
		}
		if err := s.client.Do(s.cmd.Context(), get("/api/v1/dlq", query), &page); err != nil {
			return err
		}
		for _, m := range page.Messages {
			if err := s.text(string(m)); err != nil {
				return err
			}
		}
		total += int64(len(page.Messages))
		if page.Pagination.Next == nil {
			return nil
		}
		query.Set("cursor", *page.Pagination.Next)
		shown.Show(total, -1, time.Now())
	}
}

// cheats are the commands that most people need.
//
//go:embed cheat.txt
var cheats string

func newCheat() *cobra.Command {
	return &cobra.Command{
		Use: "cheat", Short: "Print the commands that most people need", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), cheats)
			return err
		},
	}
}

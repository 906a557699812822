package cli

import (
	"bytes"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"

	_ "embed"
	"io"
	"time"

	"github.com/spf13/cobra"
)

func newPing() *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use: "ping", Short: "Measure how long the server takes to answer", Args: cobra.NoArgs,
		RunE: session.Run(func(s *session.Session, _ []string) error {
			if count < 1 {
				return session.UsageError("--count must be at least 1")
			}
			for i := range count {
				began := time.Now()
				var health struct {
					Status  string `json:"status"`
					Version string `json:"version"`
				}
				if err := s.Client.Do(s.Cmd.Context(), request.Get("/health", nil), &health); err != nil {
					return err
				}
				err := s.Value(map[string]any{
					"server": s.Server, "status": health.Status, "version": health.Version, "milliseconds": float64(time.Since(began).Microseconds()) / 1000,
				}, "", "SERVER:server STATUS:status VERSION:version MS:milliseconds")
				if err != nil {
					return err
				}
				if i+1 < count && !session.Sleep(s.Cmd.Context(), time.Second) {
					return nil
				}
			}
			return nil
		}),
	}
	session.AddFlags(cmd)
	cmd.Flags().IntVar(&count, "count", 1, "number of requests, one per second")
	return cmd
}

func newMetrics() *cobra.Command {
	var match string
	cmd := &cobra.Command{
		Use: "metrics", Short: "Print the metrics of the server in the Prometheus format", Args: cobra.NoArgs,
		Example: `  belfry metrics --match queue`,
		RunE: session.Run(func(s *session.Session, _ []string) error {
			var text []byte
			if err := s.Client.Do(s.Cmd.Context(), request.Get("/metrics/prometheus", nil), &text); err != nil {
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
		}),
	}
	session.AddServerFlags(cmd)
	cmd.Flags().StringVar(&match, "match", "", "only lines that contain this text")
	return cmd
}

// cheats is the text of the command cheat: the most common commands.
//
//go:embed cheat.txt
var cheats string

func newCheat() *cobra.Command {
	return &cobra.Command{
		Use: "cheat", Short: "Print the most common commands", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), cheats)
			return err
		},
	}
}

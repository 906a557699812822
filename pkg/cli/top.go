package cli

import (
	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/top"
)

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use: "top", Short: "Show on one screen what the server does", Args: cobra.NoArgs,
		Long: `Show on one screen what the server does: its instances, and the queues with their rates, waiting requests, lag and dead
letters. Keys: q quits, s sorts, / filters, e explains, p pauses, r reads the counts of stored messages again.

LAG is shown for queues with a late group, as problems.late_after of the server says. An exclamation mark at DEAD
means that a group has at least live.dead_letters_threshold dead letters. PENDING and DEAD are as old as the last line says.`,
		RunE: session.Run(func(s *session.Session, _ []string) error {
			in, out := s.Cmd.InOrStdin(), s.Cmd.OutOrStdout()
			if !session.IsTerminal(in) || !session.IsTerminal(out) {
				return session.UsageError("\"belfry top\" needs a terminal: use \"belfry queue list\", or the stream GET /api/v1/events")
			}
			s.Outages.Silence()
			return top.Run(s.Cmd.Context(), s.Client, s.Server, in, out)
		}),
	}
	session.AddServerFlags(cmd)
	return cmd
}

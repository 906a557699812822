package cli

import (
	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/top"
)

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use: "top", Short: "Show the activity of the server on one screen", Args: cobra.NoArgs,
		Long: `Show the activity of the server on one screen: its instances, and the queues with their rates, waiting requests, lag and
dead letters. Keys: q quits, s sorts, / filters, e explains, p pauses, r reads the counts of stored messages again.

LAG is shown for queues with a late group (problems.late_after of the server). An exclamation mark at DEAD
means that a group has at least live.dead_letters_threshold dead letters. The last line shows the age of PENDING and DEAD.`,
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

package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/demo"
	"github.com/belfry-mq/belfry/pkg/cli/session"
)

func newDemo() *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use: "demo", Short: "Run a small shop on the server as a demonstration", Args: cobra.NoArgs,
		Long: `Run a small shop on the server until Ctrl-C. The demo shows a steady flow of orders, a group that is too slow, a group
that fails now and then, and dead letters that need a redrive. The queues demo.orders and demo.invoices remain after the
end. Delete them with "belfry queue delete".`,
		RunE: session.Run(func(s *session.Session, _ []string) error {
			if every <= 0 {
				return session.UsageError("--every must be more than 0")
			}
			return demo.Run(s.Cmd.Context(), s.Client, every, s.Cmd.OutOrStdout())
		}),
	}
	session.AddServerFlags(cmd)
	cmd.Flags().DurationVar(&every, "every", 200*time.Millisecond, "the time between two orders")
	return cmd
}

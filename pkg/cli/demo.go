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
		Use: "demo", Short: "Run a small shop on the server, to look at", Args: cobra.NoArgs,
		Long: `Run a small shop on the server until Ctrl-C: orders that come all the time, a group that is too slow, one that fails now and
then, and dead letters that wait for a redrive. Its queues are demo.orders and demo.invoices. They stay;
"belfry queue delete" removes them.`,
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

package noun

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/cli/verb"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

const skipColumns = `GROUP:consumerGroup QUEUE:queueName SKIPPED:messagesSkipped LEASES-ENDED:leasesEnded
	AT-LEAST:countsAreLowerBounds:wide`

func newQueuePurge() *cobra.Command {
	cmd := &cobra.Command{
		Use: "purge QUEUE", Short: "Move all groups of a queue to its end, past the stored messages",
		Long: `Move all consumer groups of a queue to its end, so that they receive only new messages. The stored messages remain until
retention deletes them. "belfry replay" delivers stored messages again. --dry-run counts the messages that each group
would skip.`,
		Example: `  belfry queue purge orders --dry-run`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: session.Complete([]session.Completion{session.Queues}),
		RunE: session.RunPatient(func(s *session.Session, args []string) error {
			in := &verb.Input{Session: s, Args: args}
			skips, err := countSkips(in)
			switch {
			case errors.Is(err, client.ErrNotFound):
				return in.UnlessExpected(verb.NotFound(fmt.Sprintf("the queue %q", args[0])))
			case err != nil:
				return err
			case s.DryRun && s.IsTable():
				err = s.Text(fmt.Sprintf("would move all groups of the queue %q to its end", args[0]))
			case !s.DryRun:
				err = purge(in, skips)
			}
			if err != nil {
				return err
			}
			return s.Value(skips, "", skipColumns)
		}),
	}
	session.AddFlags(cmd)
	cmd.Flags().Bool("dry-run", false, "change nothing: show the changes")
	cmd.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	verb.IfExistsFlag(cmd.Flags())
	return cmd
}

// countSkips counts the messages that each group of the queue would skip. In a large queue, the counts are lower
// bounds.
func countSkips(in *verb.Input) ([]api.SeekPreview, error) {
	all, err := groupsOf(in)
	skips := make([]api.SeekPreview, len(all))
	for i, g := range all {
		if err := in.Client.Do(in.Cmd.Context(), request.Get(seekPath(in, g.Name), url.Values{"toEnd": {"true"}}), &skips[i]); err != nil {
			return nil, err
		}
	}
	return skips, err
}

// purge asks for confirmation and moves the groups.
func purge(in *verb.Input, skips []api.SeekPreview) error {
	left := int64(0)
	for _, group := range skips {
		left += group.MessagesSkipped
	}
	if err := in.Confirm(fmt.Sprintf("Move %d groups of the queue %q to its end, past %d messages that they have not consumed?", len(skips), in.Args[0], left)); err != nil {
		return err
	}
	for _, group := range skips {
		if err := in.Client.Do(in.Cmd.Context(), request.Post(seekPath(in, group.ConsumerGroup), url.Values{"toEnd": {"true"}}, nil), nil); err != nil {
			return fmt.Errorf("moving the group %q: %w", group.ConsumerGroup, err)
		}
	}
	return nil
}

func seekPath(in *verb.Input, group string) string {
	return groupPath(&verb.Input{Args: []string{group, in.Args[0]}}) + "/seek"
}

// groupsOf returns the groups of the queue in the first argument.
func groupsOf(in *verb.Input) (all []api.GroupFigures, err error) {
	query := url.Values{"limit": {"1000"}}
	for {
		var page api.QueueGroups
		if err := in.Client.Do(in.Cmd.Context(), request.Get(queuePath(in)+"/groups", query), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Groups...)
		if page.Pagination.Next == nil {
			return all, nil
		}
		query.Set("cursor", *page.Pagination.Next)
	}
}

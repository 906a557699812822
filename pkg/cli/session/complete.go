package session

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/contexts"
	"github.com/belfry-mq/belfry/pkg/client"
)

// Completion asks the server for names that begin an argument.
type Completion func(ctx context.Context, c *client.Client) []string

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 2 * time.Second

// Complete completes each argument with its completion.
func Complete(each []Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(each) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := open(cmd, NoRetry)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		return each[len(args)](ctx, s.Client), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteContexts completes the name of a context.
func CompleteContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	saved, err := contexts.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, named := range saved.Contexts {
		names = append(names, named.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

package session

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/contexts"
	"github.com/belfry-mq/belfry/pkg/client"
)

// Completion reads names from the server for the completion of an argument.
type Completion func(ctx context.Context, c *client.Client) []string

// completionTimeout is the maximum time that a shell waits for names.
const completionTimeout = 2 * time.Second

// Complete returns a function that completes argument i with each[i].
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

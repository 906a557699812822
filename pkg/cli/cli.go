package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/names"
	"github.com/belfry-mq/belfry/pkg/client"
)

// Commands returns the commands that speak to a server.
func Commands() []*cobra.Command {
	all := []*cobra.Command{
		newPush(), newPop(), newTail(), newAck(), newExtend(), newTransaction(), newExplain(), newPing(), newMetrics(),
		newApply(), newExport(), newContext(), newCheat(), newTop(), newDemo(),
		noun("queue", "Create, show and change queues", queueVerbs, newConfigure(), newQueuePurge()),
		noun("partition", "Show, pause and resume partitions", partitionVerbs),
		noun("group", "Show, move and change consumer groups", groupVerbs),
		noun("dlq", "Show, deliver again and delete dead letters", deadLetterVerbs, newDeadLetterExport()),
		noun("messages", "Show and change stored messages", messageVerbs),
		noun("namespace", "Show namespaces", namespaceVerbs),
		noun("task", "Show tasks", taskVerbs),
		noun("trace", "Show traces", traceVerbs),
		noun("streams", "Show and delete queries of streams", streamVerbs),
		noun("maintenance", "Show, begin and end maintenance", maintenanceVerbs),
	}
	for _, v := range serverVerbs {
		all = append(all, v.command())
	}
	for _, c := range all {
		c.GroupID = GroupID
		// The flags of the whole program are settings of the server: they do nothing here.
		c.SetUsageTemplate(strings.Replace(c.UsageTemplate(), ".HasAvailableInheritedFlags", "false", 1))
	}
	return all
}

// GroupID is the group of the commands in the help of their parent.
const GroupID = "server"

// noun returns a command that has only other commands.
func noun(name, short string, verbs []*verb, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Args: noSuchVerb, SuggestionsMinimumDistance: 1,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, v := range verbs {
		cmd.AddCommand(v.command())
	}
	cmd.AddCommand(more...)
	return cmd
}

// noSuchVerb refuses a word that is not a command of a noun, and names similar ones.
func noSuchVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		text += ", did you mean " + strings.Join(names, " or ") + "?"
	}
	return errors.New(text)
}

// completion asks the server for names that begin an argument.
type completion func(ctx context.Context, c *client.Client) []string

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 2 * time.Second

// completeWith completes each argument with its completion.
func completeWith(each []completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(each) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := newSession(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		return each[len(args)](ctx, s.client), cobra.ShellCompDirectiveNoFileComp
	}
}

// The completions.
var queues, groups completion = names.Queues, names.Groups

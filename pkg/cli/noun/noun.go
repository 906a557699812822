// Package noun has the commands that begin with a noun: queue, partition, group, dlq, messages and others. Most
// commands are entries in a table of verbs. Commands that begin with a verb, such as status, are in server.go.
package noun

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/verb"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	all := []*cobra.Command{
		noun("queue", "Create, show and change queues", queueVerbs, newConfigure(), newQueueLimit(), newQueuePurge()),
		noun("partition", "Show, pause and resume partitions", partitionVerbs),
		noun("group", "Show, move and change consumer groups", slices.Concat(groupVerbs, blockedVerbs), newGroupLimit(), newGroupBreaker()),
		noun("dlq", "Show, redrive and delete dead letters", deadLetterVerbs, newDeadLetterExport()),
		noun("messages", "Show and change stored messages", messageVerbs),
		noun("schedule", "Create, show and change schedules", scheduleVerbs),
		noun("namespace", "Show namespaces", namespaceVerbs),
		noun("task", "Show tasks", taskVerbs),
		noun("trace", "Show traces", traceVerbs),
		noun("streams", "Show and delete queries of streams", streamVerbs),
		noun("maintenance", "Show, begin and end maintenance", maintenanceVerbs),
	}
	for _, v := range serverVerbs {
		cmd := v.Command()
		if v.Use == "audit" {
			cmd.AddCommand(undoVerb.Command())
		}
		all = append(all, cmd)
	}
	return all
}

// noun returns a command that only groups other commands.
func noun(name, short string, verbs []*verb.Verb, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Args: noSuchVerb, SuggestionsMinimumDistance: 1,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, v := range verbs {
		cmd.AddCommand(v.Command())
	}
	cmd.AddCommand(more...)
	return cmd
}

// noSuchVerb refuses a word that is not a command of the noun, and suggests similar commands.
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

package noun

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/manifest"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

func newConfigure() *cobra.Command {
	var options string
	var pairs []string
	var namespace, task string
	cmd := &cobra.Command{
		Use: "configure QUEUE", Aliases: []string{"create"}, Short: "Create a queue, or change its options",
		Long: `Create a queue, or change its options. Options that you leave out keep their values. "belfry queue create" is the
same command. docs/concepts.md describes the options.`,
		Example: `  belfry queue configure orders --option leaseTime=60 --option retryLimit=5
  belfry queue configure orders --options '{"retentionEnabled": true, "completedRetentionSeconds": 3600}'`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: session.Complete([]session.Completion{session.Queues}),
		RunE: session.Run(func(s *session.Session, args []string) error {
			changes, err := manifest.ReadOptions(options, pairs)
			if err != nil {
				return session.UsageError(err.Error())
			}
			_, found, err := manifest.SettingsOf(s.Cmd.Context(), s.Client, args[0])
			if err != nil {
				return err
			}
			var tags [2]*string
			for i, flag := range []struct{ name, value string }{{"namespace", namespace}, {"task", task}} {
				if s.Cmd.Flags().Changed(flag.name) {
					tags[i] = &flag.value
				}
			}
			if s.DryRun {
				steps, err := manifest.Steps(s.Cmd.Context(), s.Client, manifest.Queue(args[0], tags[0], tags[1], changes))
				if err != nil {
					return err
				}
				return s.Text(manifest.Text(steps))
			}
			return configure(s, manifest.ChangeRequest(args[0], found, tags[0], tags[1], changes), changes)
		}),
	}
	session.AddFlags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&pairs, "option", nil, "an option, NAME=VALUE; you can repeat the flag")
	f.StringVar(&options, "options", "", "options as a JSON object")
	f.StringVar(&namespace, "namespace", "", "namespace instead of the first part of the name")
	f.StringVar(&task, "task", "", "task instead of the second part of the name")
	f.Bool("dry-run", false, "change nothing: show the changes")
	return cmd
}

func configure(s *session.Session, request client.Request, changes map[string]any) error {
	var answer []byte
	if err := s.Client.Do(s.Cmd.Context(), request, &answer); err != nil {
		return err
	}
	Warn(s, answer, changes)
	return s.Answer(answer, "", configuredColumns)
}

// Warn prints the warnings of an answer that name a changed option.
func Warn(s *session.Session, answer []byte, changes map[string]any) {
	var read api.Configured
	if json.Unmarshal(answer, &read) != nil {
		return // Answer returns the error
	}
	for _, warning := range read.Warnings {
		about := func(name string) bool { return strings.Contains(warning, "options."+name) }
		if slices.ContainsFunc(slices.Collect(maps.Keys(changes)), about) {
			s.Note("warning: " + warning)
		}
	}
}

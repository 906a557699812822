package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/manifest"
	"github.com/belfry-mq/belfry/pkg/client"
)

func newConfigure() *cobra.Command {
	var options string
	var pairs []string
	var namespace, task string
	cmd := &cobra.Command{
		Use: "configure QUEUE", Aliases: []string{"create"}, Short: "Create a queue, or change its options",
		Long: `Create a queue, or change its options. Options that are not named keep their value. "belfry queue create" is the
same command. docs/concepts.md describes the options.`,
		Example: `  belfry queue configure orders --option leaseTime=60 --option retryLimit=5
  belfry queue configure orders --options '{"retentionEnabled": true, "completedRetentionSeconds": 3600}'`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeWith([]completion{queues}),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			changes, err := manifest.ReadOptions(options, pairs)
			if err != nil {
				return usageError(err.Error())
			}
			_, found, err := manifest.SettingsOf(cmd.Context(), s.client, args[0])
			if err != nil {
				return err
			}
			var tags [2]*string
			for i, flag := range []struct{ name, value string }{{"namespace", namespace}, {"task", task}} {
				if cmd.Flags().Changed(flag.name) {
					tags[i] = &flag.value
				}
			}
			if s.dryRun {
				return foretell(s, manifest.Queue(args[0], tags[0], tags[1], changes))
			}
			return configure(s, manifest.ChangeRequest(args[0], found, tags[0], tags[1], changes), changes)
		},
	}
	addFlags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&pairs, "option", nil, "an option, NAME=VALUE; may be repeated")
	f.StringVar(&options, "options", "", "options as a JSON object")
	f.StringVar(&namespace, "namespace", "", "namespace instead of the first part of the name")
	f.StringVar(&task, "task", "", "task instead of the second part of the name")
	f.Bool("dry-run", false, "change nothing: show what would be done")
	return cmd
}

// foretell prints the steps that a manifest needs.
func foretell(s *session, wanted manifest.Manifest) error {
	steps, err := manifest.Steps(s.cmd.Context(), s.client, wanted)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return s.text("nothing to change")
	}
	for _, one := range steps {
		if err := s.text(one.Text); err != nil {
			return err
		}
	}
	return nil
}

func configure(s *session, request client.Request, changes map[string]any) error {
	var answer []byte
	if err := s.client.Do(s.cmd.Context(), request, &answer); err != nil {
		return err
	}
	warn(s, answer, changes)
	return s.Answer(answer, "", configuredColumns)
}

// warn prints the warnings of an answer that are about the changed options.
func warn(s *session, answer []byte, changes map[string]any) {
	var read struct {
		Warnings []string `json:"warnings"`
	}
	if json.Unmarshal(answer, &read) != nil {
		return // Answer says so
	}
	for _, warning := range read.Warnings {
		about := func(name string) bool { return strings.Contains(warning, "options."+name) }
		if s.Quiet || !slices.ContainsFunc(slices.Collect(maps.Keys(changes)), about) {
			continue
		}
		_, _ = fmt.Fprintln(s.cmd.ErrOrStderr(), "warning: "+warning)
	}
}

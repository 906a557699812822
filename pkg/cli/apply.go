package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/pkg/cli/manifest"
	"github.com/belfry-mq/belfry/pkg/cli/noun"
	"github.com/belfry-mq/belfry/pkg/cli/session"
)

func newApply() *cobra.Command {
	var file string
	var prune bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Create and change queues, groups and schedules according to a file",
		Long: `Create and change queues and schedules, and pause or resume queues and consumer groups, according to a YAML file. Options,
namespace, task and pauses that the file does not name keep their values. To reset an option to its default, name the
option with the default value. A schedule has the members of the body of PUT /api/v1/schedules/NAME. Members that the file
leaves out have their defaults, except for paused.

--prune deletes queues that the file does not name, with their messages. It also deletes schedules that the file does not
name, if the file has the list schedules. --dry-run shows the changes without making them. Its exit code is 2 if there are
changes.

The first pop of a group creates the group. So the file can only pause or resume a group that exists. Limits may be set before.
Limits have the members of the body of PUT .../limits, and replace the limits of the group, or the default of the queue.`,
		Example: `  belfry apply -f queues.yaml --dry-run

  queues:
    - name: orders
      options: {leaseTime: 60, retryLimit: 5}
      limits: {concurrency: 20}
    - name: invoices
      paused: true
  groups:
    - {name: billing, queue: orders, paused: true, limits: {rateLimit: {messages: 100, per: 1s}}}
  schedules:
    - {name: daily, queue: reports, cron: 0 8 * * 1-5, zone: Europe/Rome, payload: {kind: daily}}`,
		Args: cobra.NoArgs,
		RunE: session.Run(func(s *session.Session, _ []string) error {
			if file == "" {
				return session.UsageError("--file is missing")
			}
			text, err := s.Input(file)
			if err != nil {
				return err
			}
			wanted, err := manifest.Read(text)
			if err != nil {
				return session.UsageError(err.Error())
			}
			return apply(s, wanted, prune)
		}),
	}
	session.AddServerFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "YAML file; - is standard input")
	f.BoolVar(&prune, "prune", false, "delete the queues and schedules that the file does not name")
	f.Bool("dry-run", false, "change nothing: show the changes, with exit code 2 if there are any")
	f.BoolP("yes", "y", false, "do not ask for confirmation before --prune deletes something")
	return cmd
}

func apply(s *session.Session, wanted manifest.Manifest, prune bool) error {
	steps, err := manifest.Steps(s.Cmd.Context(), s.Client, wanted)
	if err != nil {
		return err
	}
	if prune {
		deletions, err := deletionsOf(s, wanted)
		if err != nil {
			return err
		}
		steps = append(steps, deletions...)
	}
	if len(steps) == 0 || s.DryRun {
		if err := s.Text(manifest.Text(steps)); err != nil || len(steps) == 0 {
			return err
		}
		return &session.ExitError{Code: session.ExitUsage}
	}
	for _, step := range steps {
		var answer []byte
		if err := s.Client.Do(s.Cmd.Context(), step.Request, &answer); err != nil {
			return err
		}
		noun.Warn(s, answer, step.Options)
		if err := s.Text(step.Text); err != nil {
			return err
		}
	}
	return nil
}

// deletionsOf returns the deletions of --prune, after the user has confirmed them.
func deletionsOf(s *session.Session, wanted manifest.Manifest) ([]manifest.Step, error) {
	if len(wanted.Queues) == 0 && wanted.Schedules == nil {
		return nil, session.UsageError("--prune would delete every queue, because the file names no queue")
	}
	schedules, err := manifest.ScheduleDeletions(s.Cmd.Context(), s.Client, wanted)
	if err != nil {
		return nil, err
	}
	var queues []manifest.Step
	if len(wanted.Queues) > 0 {
		if queues, err = manifest.Deletions(s.Cmd.Context(), s.Client, wanted); err != nil {
			return nil, err
		}
	}
	var questions []string
	if len(queues) > 0 {
		questions = append(questions, fmt.Sprintf("Delete %d queues that the file does not name, with all their messages: %s?", len(queues), namesOf(queues)))
	}
	if len(schedules) > 0 {
		questions = append(questions, fmt.Sprintf("Delete %d schedules that the file does not name: %s?", len(schedules), namesOf(schedules)))
	}
	if len(questions) > 0 && !s.DryRun {
		if err := s.Confirm(strings.Join(questions, " ")); err != nil {
			return nil, err
		}
	}
	return append(schedules, queues...), nil
}

// namesOf returns the names of at most ten objects of deletions.
func namesOf(deletions []manifest.Step) string {
	const most = 10
	var names []string
	for _, deletion := range deletions {
		if len(names) == most {
			names = append(names, "and others")
			break
		}
		names = append(names, deletion.Object)
	}
	return strings.Join(names, ", ")
}

func newExport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Print the queues, groups and schedules as a file for \"belfry apply\"", Args: cobra.NoArgs,
		Example: `  belfry export > queues.yaml`,
		RunE: session.Run(func(s *session.Session, _ []string) error {
			all, err := manifest.Current(s.Cmd.Context(), s.Client)
			if err != nil {
				return err
			}
			if !s.IsTable() {
				return s.Value(all, "queues", "")
			}
			text, err := yaml.Marshal(all)
			if err != nil {
				return err
			}
			return s.Text(string(text))
		}),
	}
	session.AddFlags(cmd)
	return cmd
}

package cli

import (
	"encoding/json"
	"errors"
	"math"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/client"
)

// queueSettings are what a queue is configured with.
type queueSettings struct {
	Namespace string         `json:"namespace" yaml:"namespace"`
	Task      string         `json:"task" yaml:"task"`
	Paused    bool           `json:"paused" yaml:"paused,omitempty"`
	Options   map[string]any `json:"options" yaml:"options,omitempty"`
}

// settingsOf reads the settings of a queue. Without the queue, found is false.
func (s *session) settingsOf(queueName string) (settings queueSettings, found bool, err error) {
	var answer struct {
		Queue queueSettings `json:"queue"`
	}
	err = s.client.Do(s.cmd.Context(), get("/api/v1/status/queues/"+url.PathEscape(queueName), url.Values{"limit": {"1"}}), &answer)
	if errors.Is(err, client.ErrNotFound) {
		return queueSettings{Options: map[string]any{}}, false, nil
	}
	for name, value := range answer.Queue.Options {
		if n, isNumber := value.(float64); isNumber && n == math.Trunc(n) {
			answer.Queue.Options[name] = int64(n) // so that it is written and compared as in a YAML file
		}
	}
	return answer.Queue, err == nil, err
}

func newConfigure() *cobra.Command {
	var options string
	var pairs []string
	var namespace, task string
	cmd := &cobra.Command{
		Use: "configure QUEUE", Short: "Create a queue, or change its options",
		Long: `Create a queue, or change its options. Options that are not named keep their value. docs/concepts.md describes the options.`,
		Example: `  belfry queue configure orders --option leaseTime=60 --option retryLimit=5
  belfry queue configure orders --options '{"retentionEnabled": true, "completedRetentionSeconds": 3600}'`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeWith([]completion{queues}),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			changes := map[string]any{}
			if options != "" {
				if err := json.Unmarshal([]byte(options), &changes); err != nil {
					return usageError("--options must be a JSON object: " + err.Error())
				}
			}
			for _, pair := range pairs {
				name, value, err := optionOf(pair)
				if err != nil {
					return err
				}
				changes[name] = value
			}
			settings, found, err := s.settingsOf(args[0])
			if err != nil {
				return err
			}
			for name, value := range changes {
				settings.Options[name] = value
			}
			if cmd.Flags().Changed("namespace") {
				settings.Namespace = namespace
			}
			if cmd.Flags().Changed("task") {
				settings.Task = task
			}
			tagged := found || cmd.Flags().Changed("namespace") || cmd.Flags().Changed("task")
			return s.configure(configureRequest(args[0], settings, tagged))
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

// configureRequest configures a queue. Without tags the namespace and the task follow from the name.
func configureRequest(queueName string, settings queueSettings, tagged bool) client.Request {
	body := map[string]any{"queue": queueName, "options": settings.Options}
	if tagged {
		body["namespace"], body["task"] = settings.Namespace, settings.Task
	}
	return post("/api/v1/configure", nil, body)
}

func (s *session) configure(request client.Request) error {
	if s.dryRun {
		return s.showRequest(request)
	}
	var answer []byte
	if err := s.client.Do(s.cmd.Context(), request, &answer); err != nil {
		return err
	}
	return s.answer(answer, "", configuredColumns)
}

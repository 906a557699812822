package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/pkg/client"
)

// manifest says which queues there are and how they are configured.
type manifest struct {
	Queues []namedQueue `yaml:"queues"`
	Groups []namedGroup `yaml:"groups,omitempty"`
}

// namedQueue is a queue of a manifest. Namespace and Task are nil if they follow from the name.
type namedQueue struct {
	Name      string         `yaml:"name"`
	Namespace *string        `yaml:"namespace,omitempty"`
	Task      *string        `yaml:"task,omitempty"`
	Paused    bool           `yaml:"paused,omitempty"`
	Options   map[string]any `yaml:"options,omitempty"`
}

// namedGroup is a consumer group of a queue.
type namedGroup struct {
	Name   string `yaml:"name"`
	Queue  string `yaml:"queue"`
	Paused bool   `yaml:"paused,omitempty"`
}

// step is one change that a manifest needs.
type step struct {
	text    string
	request client.Request
}

func newApply() *cobra.Command {
	var file string
	var prune bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Create and change queues and groups as a file says",
		Long: `Create and change queues, and pause or resume queues and consumer groups, as a YAML file says. An option that the file does not
name keeps its value. --prune deletes queues that the file does not name, with their messages. --dry-run shows what would be
done, and its exit code is 2 if something would.

A group is made by its first pop. So the file can only pause or resume a group that exists.`,
		Example: `  belfry apply -f queues.yaml --dry-run

  queues:
    - name: orders
      options: {leaseTime: 60, retryLimit: 5}
    - name: invoices
      paused: true
  groups:
    - {name: billing, queue: orders, paused: true}`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			if file == "" {
				return usageError("--file is missing")
			}
			text, err := s.input(file)
			if err != nil {
				return err
			}
			wanted, err := readManifest(text)
			if err != nil {
				return err
			}
			return s.apply(wanted, prune)
		},
	}
	addFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "YAML file; - is standard input")
	f.BoolVar(&prune, "prune", false, "delete the queues that the file does not name")
	f.Bool("dry-run", false, "change nothing: show what would be done, with exit code 2 if something would")
	f.BoolP("yes", "y", false, "do not ask before --prune deletes")
	return cmd
}

// readManifest reads one or more YAML documents.
func readManifest(text []byte) (all manifest, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	for {
		var one manifest
		if err := decoder.Decode(&one); err == io.EOF { //nolint:errorlint // as documented
			break
		} else if err != nil {
			return manifest{}, usageError("reading the file: " + err.Error())
		}
		all.Queues, all.Groups = append(all.Queues, one.Queues...), append(all.Groups, one.Groups...)
	}
	seen := map[string]bool{}
	for _, q := range all.Queues {
		if q.Name == "" || seen[q.Name] {
			return manifest{}, usageError(fmt.Sprintf("the file has a queue without a name, or %q twice", q.Name))
		}
		seen[q.Name] = true
	}
	for _, g := range all.Groups {
		if g.Name == "" || g.Queue == "" {
			return manifest{}, usageError("the file has a group without name or queue")
		}
	}
	return all, nil
}

func (s *session) apply(wanted manifest, prune bool) error {
	steps, err := s.steps(wanted)
	if err != nil {
		return err
	}
	if prune {
		deletions, err := s.prunings(wanted)
		if err != nil {
			return err
		}
		if len(deletions) > 0 && !s.dryRun {
			if err := s.confirm(fmt.Sprintf("Delete %d queues that the file does not name, with all their messages?", len(deletions))); err != nil {
				return err
			}
		}
		steps = append(steps, deletions...)
	}
	for _, one := range steps {
		if err := s.text(one.text); err != nil {
			return err
		}
		if s.dryRun {
			continue
		}
		if err := s.client.Do(s.cmd.Context(), one.request, nil); err != nil {
			return err
		}
	}
	if len(steps) == 0 {
		return s.text("nothing to change")
	}
	if s.dryRun {
		return &exitError{code: ExitUsage}
	}
	return nil
}

// steps returns the changes of queues and groups, without deletions.
func (s *session) steps(wanted manifest) (steps []step, err error) {
	for _, q := range wanted.Queues {
		now, found, err := s.settingsOf(q.Name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, q.steps(now, found)...)
	}
	if len(wanted.Groups) == 0 {
		return steps, nil
	}
	var groups []struct {
		Name   string `json:"name"`
		Queue  string `json:"queueName"`
		Paused bool   `json:"paused"`
	}
	if err := s.client.Do(s.cmd.Context(), get("/api/v1/consumer-groups", nil), &groups); err != nil {
		return nil, err
	}
	for _, g := range wanted.Groups {
		found := false
		for _, now := range groups {
			if now.Name != g.Name || now.Queue != g.Queue {
				continue
			}
			found = true
			if now.Paused != g.Paused {
				path := "/api/v1/consumer-groups/" + url.PathEscape(g.Name) + "/queues/" + url.PathEscape(g.Queue)
				steps = append(steps, pauseStep("group "+g.Name+" of "+g.Queue, path, g.Paused))
			}
		}
		if !found && g.Paused {
			return nil, fmt.Errorf("the queue %q has no group %q: a group is made by its first pop", g.Queue, g.Name)
		}
	}
	return steps, nil
}

// steps returns what changes a queue from what it is now.
func (q *namedQueue) steps(now queueSettings, found bool) (steps []step) {
	settings, tagged := now, found
	settings.Options = maps.Clone(now.Options)
	var differences []string
	differ := func(name string, was, is any) {
		if fmt.Sprint(was) != fmt.Sprint(is) {
			differences = append(differences, fmt.Sprintf("%s: %v -> %v", name, was, is))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Options)) {
		differ(name, now.Options[name], q.Options[name])
		settings.Options[name] = q.Options[name]
	}
	if q.Namespace != nil {
		differ("namespace", now.Namespace, *q.Namespace)
		settings.Namespace, tagged = *q.Namespace, true
	}
	if q.Task != nil {
		differ("task", now.Task, *q.Task)
		settings.Task, tagged = *q.Task, true
	}
	request := configureRequest(q.Name, settings, tagged)
	switch {
	case !found:
		steps = append(steps, step{strings.TrimSpace("create queue " + q.Name + " " + settingsText(q.Options)), request})
	case len(differences) > 0:
		steps = append(steps, step{"change queue " + q.Name + ": " + strings.Join(differences, ", "), request})
	}
	if q.Paused != now.Paused {
		steps = append(steps, pauseStep("queue "+q.Name, "/api/v1/resources/queues/"+url.PathEscape(q.Name), q.Paused))
	}
	return steps
}

func settingsText(options map[string]any) string { return settings(options) }

func pauseStep(what, path string, paused bool) step {
	verb := "resume"
	if paused {
		verb = "pause"
	}
	return step{verb + " " + what, post(path+"/"+verb, nil, nil)}
}

// prunings returns the deletions of the queues that a manifest does not name.
func (s *session) prunings(wanted manifest) (steps []step, err error) {
	named := map[string]bool{}
	for _, q := range wanted.Queues {
		named[q.Name] = true
	}
	all, err := s.queueNames()
	for _, name := range all {
		if !named[name] {
			steps = append(steps, step{"delete queue " + name, remove("/api/v1/resources/queues/"+url.PathEscape(name), nil)})
		}
	}
	return steps, err
}

// queueNames returns the names of all queues, sorted.
func (s *session) queueNames() ([]string, error) {
	const page = 1000
	var names []string
	for {
		var answer struct {
			Queues []struct {
				Name string `json:"name"`
			} `json:"queues"`
		}
		query := url.Values{"limit": {fmt.Sprint(page)}, "offset": {fmt.Sprint(len(names))}}
		if err := s.client.Do(s.cmd.Context(), get("/api/v1/status/queues", query), &answer); err != nil {
			return nil, err
		}
		for _, q := range answer.Queues {
			names = append(names, q.Name)
		}
		if len(answer.Queues) < page {
			slices.Sort(names)
			return names, nil
		}
	}
}

func newExport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Print the queues and groups as a file for belfry apply", Args: cobra.NoArgs,
		Example: `  belfry export > queues.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSession(cmd)
			if err != nil {
				return err
			}
			return s.export()
		},
	}
	addFlags(cmd)
	return cmd
}

func (s *session) export() error {
	names, err := s.queueNames()
	if err != nil {
		return err
	}
	var all manifest
	for _, name := range names {
		now, found, err := s.settingsOf(name)
		if err != nil {
			return err
		}
		if found { // it may be deleted meanwhile
			all.Queues = append(all.Queues, namedQueue{Name: name, Namespace: &now.Namespace, Task: &now.Task, Paused: now.Paused, Options: now.Options})
		}
	}
	var groups []struct {
		Name   string `json:"name"`
		Queue  string `json:"queueName"`
		Paused bool   `json:"paused"`
	}
	if err := s.client.Do(s.cmd.Context(), get("/api/v1/consumer-groups", nil), &groups); err != nil {
		return err
	}
	for _, g := range groups {
		all.Groups = append(all.Groups, namedGroup{Name: g.Name, Queue: g.Queue, Paused: g.Paused})
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	return s.text(string(text))
}

package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client"
)

// Manifest lists queues, consumer groups and schedules with their configuration.
type Manifest struct {
	Queues []namedQueue `yaml:"queues" json:"queues"`
	Groups []namedGroup `yaml:"groups,omitempty" json:"groups,omitempty"`
	// Schedules is nil if the file has no list of schedules.
	Schedules []namedSchedule `yaml:"schedules,omitempty" json:"schedules,omitempty"`
}

// namedQueue is a queue of a manifest. A nil field means that the queue keeps its value. A new queue takes a nil
// namespace or task from its name.
type namedQueue struct {
	Name      string         `yaml:"name" json:"name"`
	Namespace *string        `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	Task      *string        `yaml:"task,omitempty" json:"task,omitempty"`
	Paused    *bool          `yaml:"paused,omitempty" json:"paused,omitempty"`
	Options   map[string]any `yaml:"options,omitempty" json:"options,omitempty"`
	Limits    limits         `yaml:"limits,omitempty" json:"limits,omitempty"`
}

// namedGroup is a consumer group of a queue. A nil Paused means that the group keeps its state.
type namedGroup struct {
	Name   string `yaml:"name" json:"name"`
	Queue  string `yaml:"queue" json:"queue"`
	Paused *bool  `yaml:"paused,omitempty" json:"paused,omitempty"`
	Limits limits `yaml:"limits,omitempty" json:"limits,omitempty"`
}

// Step is one change that a manifest needs. Text describes the change, and Request makes it.
type Step struct {
	// Object is the name of the queue or schedule.
	Object  string
	Text    string
	Request client.Request
	// Options are the options in the manifest.
	Options map[string]any
}

// Text returns the texts of the steps, one per line.
func Text(steps []Step) string {
	if len(steps) == 0 {
		return "nothing to change"
	}
	var texts []string
	for _, one := range steps {
		texts = append(texts, one.Text)
	}
	return strings.Join(texts, "\n")
}

// Queue returns the manifest of one queue. With a nil namespace or task, the queue keeps its value.
func Queue(name string, namespace, task *string, options map[string]any) Manifest {
	return Manifest{Queues: []namedQueue{{Name: name, Namespace: namespace, Task: task, Options: options}}}
}

// Read reads one or more YAML documents. An unknown member is an error.
func Read(text []byte) (all Manifest, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	for {
		var one Manifest
		if err := decoder.Decode(&one); err == io.EOF { //nolint:errorlint // as documented
			break
		} else if err != nil {
			return Manifest{}, fmt.Errorf("reading the file: %w", err)
		}
		all.Queues, all.Groups = append(all.Queues, one.Queues...), append(all.Groups, one.Groups...)
		if one.Schedules != nil {
			all.Schedules = append(slices.Grow(all.Schedules, 1), one.Schedules...)
		}
	}
	seen := map[string]bool{}
	for _, q := range all.Queues {
		if q.Name == "" || seen[q.Name] {
			return Manifest{}, fmt.Errorf("the file has a queue without a name, or the queue %q twice", q.Name)
		}
		seen[q.Name] = true
		for name := range q.Options {
			if err := CheckOption(name); err != nil {
				return Manifest{}, fmt.Errorf("queue %q: %w", q.Name, err)
			}
		}
	}
	named := map[string]bool{}
	for i := range all.Schedules {
		s := &all.Schedules[i]
		if err := s.check(); err != nil {
			return Manifest{}, err
		}
		if named[s.Name] {
			return Manifest{}, fmt.Errorf("the file has the schedule %q twice", s.Name)
		}
		named[s.Name] = true
	}
	for _, g := range all.Groups {
		if g.Name == "" || g.Queue == "" {
			return Manifest{}, errors.New("the file has a group without name or queue")
		}
	}
	return all, nil
}

// Steps reads the configuration of the server and returns the changes of queues, groups and schedules, without deletions.
func Steps(ctx context.Context, c *client.Client, wanted Manifest) (steps []Step, err error) {
	for _, q := range wanted.Queues {
		now, found, err := SettingsOf(ctx, c, q.Name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, q.steps(now, found)...)
		limited, err := limitsStep(ctx, c, q.Name, "", q.Limits)
		if err != nil {
			return nil, err
		}
		if limited != nil {
			steps = append(steps, *limited)
		}
	}
	ofGroups, err := groupSteps(ctx, c, wanted.Groups)
	if err != nil {
		return nil, err
	}
	steps = append(steps, ofGroups...)
	for i := range wanted.Schedules {
		step, err := wanted.Schedules[i].step(ctx, c)
		if err != nil {
			return nil, err
		}
		if step != nil {
			steps = append(steps, *step)
		}
	}
	return steps, nil
}

// groupSteps returns the changes of groups.
func groupSteps(ctx context.Context, c *client.Client, wanted []namedGroup) (steps []Step, err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	groups, err := groupsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, g := range wanted {
		found := false
		for _, now := range groups {
			if now.Name != g.Name || now.Queue != g.Queue {
				continue
			}
			found = true
			if g.Paused != nil && now.Paused != *g.Paused {
				path := "/api/v1/consumer-groups/" + url.PathEscape(g.Name) + "/queues/" + url.PathEscape(g.Queue)
				steps = append(steps, pauseStep("group "+g.Name+" of "+g.Queue, path, *g.Paused))
			}
		}
		if !found && g.Paused != nil && *g.Paused {
			return nil, fmt.Errorf("the queue %q has no group %q: the first pop of a group creates it", g.Queue, g.Name)
		}
		limited, err := limitsStep(ctx, c, g.Queue, g.Name, g.Limits)
		if err != nil {
			return nil, err
		}
		if limited != nil {
			steps = append(steps, *limited)
		}
	}
	return steps, nil
}

// steps returns the changes of a queue. now has its current settings; found is false if the queue does not exist.
func (q *namedQueue) steps(now Settings, found bool) (steps []Step) {
	var differences []string
	differ := func(name string, was, is any) {
		if fmt.Sprint(was) != fmt.Sprint(is) {
			differences = append(differences, fmt.Sprintf("%s: %v -> %v", name, was, is))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Options)) {
		differ(name, now.Options[name], q.Options[name])
	}
	if q.Namespace != nil {
		differ("namespace", now.Namespace, *q.Namespace)
	}
	if q.Task != nil {
		differ("task", now.Task, *q.Task)
	}
	request := ChangeRequest(q.Name, found, q.Namespace, q.Task, q.Options)
	switch {
	case !found:
		steps = append(steps, Step{q.Name, strings.TrimSpace("create queue " + q.Name + " " + output.Settings(q.Options)), request, q.Options})
	case len(differences) > 0:
		steps = append(steps, Step{q.Name, "change queue " + q.Name + ": " + strings.Join(differences, ", "), request, q.Options})
	}
	if q.Paused != nil && *q.Paused != now.Paused {
		steps = append(steps, pauseStep("queue "+q.Name, "/api/v1/resources/queues/"+url.PathEscape(q.Name), *q.Paused))
	}
	return steps
}

func pauseStep(what, path string, paused bool) Step {
	verb := "resume"
	if paused {
		verb = "pause"
	}
	return Step{Text: verb + " " + what, Request: client.Request{Method: http.MethodPost, Path: path + "/" + verb}}
}

// Deletions returns steps that delete the queues of the server that the manifest does not name.
func Deletions(ctx context.Context, c *client.Client, wanted Manifest) (steps []Step, err error) {
	named := map[string]bool{}
	for _, q := range wanted.Queues {
		named[q.Name] = true
	}
	all, err := queueNames(ctx, c)
	for _, name := range all {
		if !named[name] {
			steps = append(steps, Step{Object: name, Text: "delete queue " + name, Request: client.Request{Method: http.MethodDelete, Path: "/api/v1/resources/queues/" + url.PathEscape(name)}})
		}
	}
	return steps, err
}

// queueNames returns the names of all queues, sorted.
func queueNames(ctx context.Context, c *client.Client) ([]string, error) {
	const page = 1000
	var names []string
	for {
		var answer struct {
			Queues []struct {
				Name string `json:"name"`
			} `json:"queues"`
		}
		query := url.Values{"limit": {fmt.Sprint(page)}, "offset": {fmt.Sprint(len(names))}}
		if err := c.Do(ctx, client.Request{Path: "/api/v1/status/queues", Query: query}, &answer); err != nil {
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

// Current returns the queues, groups and schedules of the server.
func Current(ctx context.Context, c *client.Client) (all Manifest, err error) {
	names, err := queueNames(ctx, c)
	if err != nil {
		return all, err
	}
	for _, name := range names {
		now, found, err := SettingsOf(ctx, c, name)
		if err != nil {
			return all, err
		}
		if found { // the queue may be deleted meanwhile
			q := namedQueue{Name: name, Namespace: &now.Namespace, Task: &now.Task, Paused: &now.Paused, Options: now.Options}
			if err := addLimits(ctx, c, &all, &q); err != nil {
				return all, err
			}
			all.Queues = append(all.Queues, q)
		}
	}
	groups, err := groupsOf(ctx, c)
	all.addGroups(groups)
	if err == nil {
		all.Schedules, err = currentSchedules(ctx, c)
	}
	return all, err
}

// group is a consumer group in the answer of the server.
type group struct {
	Name   string `json:"name"`
	Queue  string `json:"queueName"`
	Paused bool   `json:"paused"`
}

func groupsOf(ctx context.Context, c *client.Client) (groups []group, err error) {
	return groups, c.Do(ctx, client.Request{Path: "/api/v1/consumer-groups"}, &groups)
}

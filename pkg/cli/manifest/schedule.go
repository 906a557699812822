package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/client/schedules"
)

// namedSchedule is a schedule of a manifest. A member that is left out has its default. A nil Paused means that the schedule keeps its
// state.
type namedSchedule struct {
	Name         string            `yaml:"name"`
	Queue        string            `yaml:"queue"`
	Partition    string            `yaml:"partition,omitempty"`
	Cron         string            `yaml:"cron,omitempty"`
	Every        string            `yaml:"every,omitempty"`
	At           string            `yaml:"at,omitempty"`
	Zone         string            `yaml:"zone,omitempty"`
	Payload      yaml.Node         `yaml:"payload"`
	Headers      map[string]string `yaml:"headers,omitempty"`
	DelaySeconds float64           `yaml:"delaySeconds,omitempty"`
	Starts       string            `yaml:"starts,omitempty"`
	Ends         string            `yaml:"ends,omitempty"`
	Jitter       string            `yaml:"jitter,omitempty"`
	Missed       string            `yaml:"missed,omitempty"`
	OverlapGroup string            `yaml:"overlapGroup,omitempty"`
	Paused       *bool             `yaml:"paused,omitempty"`
}

// check returns an error if a schedule cannot be sent.
func (s *namedSchedule) check() error {
	if s.Name == "" || s.Queue == "" {
		return fmt.Errorf("the file has a schedule without name or queue: %q", s.Name)
	}
	if s.Payload.Kind == 0 {
		return fmt.Errorf("the schedule %q has no payload: write null for the JSON value null", s.Name)
	}
	_, err := jsonOf(&s.Payload)
	if err != nil {
		return fmt.Errorf("the payload of the schedule %q: %w", s.Name, err)
	}
	return nil
}

// body returns the body of the request that sets the schedule.
func (s *namedSchedule) body() map[string]any {
	payload, _ := jsonOf(&s.Payload) // check has found no error
	body := map[string]any{"payload": json.RawMessage(payload)}
	for member, value := range map[string]string{
		"queue": s.Queue, "partition": s.Partition, "cron": s.Cron, "every": s.Every, "at": s.At, "zone": s.Zone, "starts": s.Starts, "ends": s.Ends,
		"jitter": s.Jitter, "missed": s.Missed, "overlapGroup": s.OverlapGroup,
	} {
		if value != "" {
			body[member] = value
		}
	}
	if len(s.Headers) > 0 {
		body["headers"] = s.Headers
	}
	if s.DelaySeconds != 0 {
		body["delaySeconds"] = s.DelaySeconds
	}
	if s.Paused != nil {
		body["paused"] = *s.Paused
	}
	return body
}

// MarshalJSON writes the members that the file has.
func (s namedSchedule) MarshalJSON() ([]byte, error) {
	body := s.body()
	body["name"] = s.Name
	return json.Marshal(body)
}

// step returns the change of a schedule, or nil. The server computes the schedule after the change in a dry run, so both sides have
// the same form, and a mistake in the file is an error before anything is changed.
func (s *namedSchedule) step(ctx context.Context, c *client.Client) (*Step, error) {
	now, err := c.Schedules().Get(ctx, s.Name)
	missing := errors.Is(err, client.ErrNotFound)
	if err != nil && !missing {
		return nil, err
	}
	set := client.Request{Method: http.MethodPut, Path: "/api/v1/schedules/" + url.PathEscape(s.Name), Body: s.body()}
	var after api.ScheduleSet
	dry := set
	dry.Query = url.Values{"dryRun": {"true"}}
	if err := c.Do(ctx, dry, &after); err != nil {
		return nil, fmt.Errorf("the schedule %q: %w", s.Name, err)
	}
	if missing {
		return &Step{Text: "create schedule " + s.Name + ": " + after.Schedule.Sentence, Request: set}, nil
	}
	was, err := members(&now.SetSchedule)
	if err != nil {
		return nil, err
	}
	is, err := members(&after.Schedule.SetSchedule)
	if err != nil {
		return nil, err
	}
	both := maps.Clone(was)
	maps.Copy(both, is)
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if was[name] != is[name] {
			differences = append(differences, fmt.Sprintf("%s: %s -> %s", name, orDash(was[name]), orDash(is[name])))
		}
	}
	if len(differences) == 0 {
		return nil, nil //nolint:nilnil // nothing to change is not an error
	}
	return &Step{Text: "change schedule " + s.Name + ": " + strings.Join(differences, ", "), Request: set}, nil
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// members returns the members of a schedule as texts. Members of objects are in the order of their names.
func members(s *api.SetSchedule) (map[string]string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for name, value := range all {
		if plain, isText := value.(string); isText && name != "payload" {
			texts[name] = plain
			continue
		}
		one, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		texts[name] = string(one)
	}
	return texts, nil
}

// currentSchedules returns the schedules of the server. They have no member with its default.
func currentSchedules(ctx context.Context, c *client.Client) (all []namedSchedule, err error) {
	for one, err := range c.Schedules().List(ctx, schedules.Filter{PageSize: 1000}) {
		if err != nil {
			return nil, err
		}
		s := namedSchedule{
			Name: one.Name, Queue: one.Queue, Cron: one.Cron, Every: one.Every, At: instantText(one.At), Headers: one.Headers, DelaySeconds: one.DelaySeconds,
			Starts: instantText(one.Starts), Ends: instantText(one.Ends), Jitter: one.Jitter, OverlapGroup: one.OverlapGroup, Paused: one.Paused,
			Partition: unless(one.Partition, "Default"), Zone: unless(one.Zone, "UTC"), Missed: unless(one.Missed, "one"),
		}
		node, err := nodeOf(one.Payload)
		if err != nil {
			return nil, fmt.Errorf("the payload of the schedule %q: %w", one.Name, err)
		}
		s.Payload = *node
		all = append(all, s)
	}
	return all, nil
}

func instantText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// unless returns a text, or "" for a default.
func unless(text, usual string) string {
	if text == usual {
		return ""
	}
	return text
}

// ScheduleDeletions returns steps that delete the schedules of the server that the manifest does not name. It returns none for a
// manifest without the list of schedules.
func ScheduleDeletions(ctx context.Context, c *client.Client, wanted Manifest) (steps []Step, err error) {
	if wanted.Schedules == nil {
		return nil, nil
	}
	named := map[string]bool{}
	for i := range wanted.Schedules {
		named[wanted.Schedules[i].Name] = true
	}
	for one, err := range c.Schedules().List(ctx, schedules.Filter{PageSize: 1000}) {
		if err != nil {
			return nil, err
		}
		if !named[one.Name] {
			steps = append(steps, Step{Object: one.Name, Text: "delete schedule " + one.Name, Request: client.Request{Method: http.MethodDelete, Path: "/api/v1/schedules/" + url.PathEscape(one.Name)}})
		}
	}
	return steps, nil
}

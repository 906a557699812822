package manifest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// limits are the limits of a group or of a queue, as JSON. Nil means that the group or the queue keeps its limits.
type limits []byte

// UnmarshalYAML reads an object. An unknown member is an error.
func (l *limits) UnmarshalYAML(n *yaml.Node) error {
	text, err := jsonOf(n)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(new(api.Limits)); err != nil {
		return fmt.Errorf("line %d: limits: %w", n.Line, err)
	}
	*l = text
	return nil
}

// MarshalYAML writes the object.
func (l limits) MarshalYAML() (any, error) { return nodeOf(l) }

// MarshalJSON writes the object.
func (l limits) MarshalJSON() ([]byte, error) { return l, nil }

// limitsOf returns the limits of an answer. It returns nil for nil.
func limitsOf(l *api.Limits) limits {
	if l == nil {
		return nil
	}
	text, _ := json.Marshal(l) // texts, numbers and flags
	return text
}

func limitsPath(queueName, group string) string {
	if group == "" {
		return "/api/v1/resources/queues/" + url.PathEscape(queueName) + "/limits"
	}
	return "/api/v1/consumer-groups/" + url.PathEscape(group) + "/queues/" + url.PathEscape(queueName) + "/limits"
}

// limitsStep returns the change of limits, or nil. The server computes the limits after the change in a dry run, so both sides have the
// same form, and a mistake in the file is an error before anything is changed. If the file also creates the queue, the server
// checks the limits only later.
func limitsStep(ctx context.Context, c *client.Client, queueName, group string, to limits) (*Step, error) {
	if to == nil {
		return nil, nil //nolint:nilnil // nothing to change is not an error
	}
	what := "default limits of queue " + queueName
	if group != "" {
		what = "limits of group " + group + " of " + queueName
	}
	set := client.Request{Method: http.MethodPut, Path: limitsPath(queueName, group), Body: json.RawMessage(to)}
	dry := set
	dry.Query = url.Values{"dryRun": {"true"}}
	var done api.LimitsSet
	err := c.Do(ctx, dry, &done)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return &Step{Text: "set the " + what + ": " + string(to), Request: set}, nil
	case err != nil:
		return nil, fmt.Errorf("the %s: %w", what, err)
	case !done.Changed:
		return nil, nil //nolint:nilnil // nothing to change is not an error
	case done.Before == nil:
		return &Step{Text: "set the " + what + ": " + string(limitsOf(done.Limits)), Request: set}, nil
	}
	return &Step{Text: "change the " + what + ": " + string(limitsOf(done.Before)) + " -> " + string(limitsOf(done.Limits)), Request: set}, nil
}

// addLimits adds the limits of a queue and of its groups to a manifest. The groups need not exist.
func addLimits(ctx context.Context, c *client.Client, all *Manifest, q *namedQueue) error {
	for cursor := ""; ; {
		page, err := c.Limits().Default(ctx, q.Name, cursor)
		if errors.Is(err, client.ErrNotFound) {
			return nil // the queue was deleted meanwhile, or the server is an older one
		}
		if err != nil {
			return err
		}
		q.Limits = limitsOf(page.Limits)
		for _, own := range page.Groups {
			all.Groups = append(all.Groups, namedGroup{Name: own.ConsumerGroup, Queue: q.Name, Limits: limitsOf(&own.Limits)})
		}
		if page.Pagination.Next == nil {
			return nil
		}
		cursor = *page.Pagination.Next
	}
}

// addGroups adds the groups that exist to a manifest. It has the groups with limits already.
func (m *Manifest) addGroups(groups []group) {
	places := map[[2]string]int{}
	for i, g := range m.Groups {
		places[[2]string{g.Queue, g.Name}] = i
	}
	for _, g := range groups {
		i, found := places[[2]string{g.Queue, g.Name}]
		if !found {
			i = len(m.Groups)
			m.Groups = append(m.Groups, namedGroup{Name: g.Name, Queue: g.Queue})
		}
		m.Groups[i].Paused = &g.Paused
	}
	slices.SortFunc(m.Groups, func(a, b namedGroup) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Name, b.Name))
	})
}

package manifest

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client"
)

// Settings is the configuration of a queue.
type Settings struct {
	Namespace string         `json:"namespace" yaml:"namespace"`
	Task      string         `json:"task" yaml:"task"`
	Paused    bool           `json:"paused" yaml:"paused,omitempty"`
	Options   map[string]any `json:"options" yaml:"options,omitempty"`
}

// SettingsOf reads the settings of a queue. found is false if the queue does not exist.
func SettingsOf(ctx context.Context, c *client.Client, queueName string) (settings Settings, found bool, err error) {
	var answer struct {
		Queue Settings `json:"queue"`
	}
	err = c.Do(ctx, client.Request{Path: "/api/v1/status/queues/" + url.PathEscape(queueName), Query: url.Values{"limit": {"1"}}}, &answer)
	if errors.Is(err, client.ErrNotFound) {
		return Settings{Options: map[string]any{}}, false, nil
	}
	for name, value := range answer.Queue.Options {
		if n, isNumber := value.(float64); isNumber && n == math.Trunc(n) {
			answer.Queue.Options[name] = int64(n) // as in a YAML file, so that a comparison finds no false difference
		}
	}
	return answer.Queue, err == nil, err
}

// ChangeRequest returns a request that creates a queue, or changes only the given settings of an existing queue. With
// a nil namespace or task, an existing queue keeps its value. If both are nil, a new queue takes both from its name.
func ChangeRequest(queueName string, exists bool, namespace, task *string, options map[string]any) client.Request {
	body := map[string]any{"options": options}
	if options == nil {
		body["options"] = map[string]any{}
	}
	if namespace != nil {
		body["namespace"] = *namespace
	}
	if task != nil {
		body["task"] = *task
	}
	if exists {
		return client.Request{Method: http.MethodPatch, Path: "/api/v1/resources/queues/" + url.PathEscape(queueName), Body: body}
	}
	body["queue"] = queueName
	return client.Request{Method: http.MethodPost, Path: "/api/v1/configure", Body: body}
}

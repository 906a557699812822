package adminplane

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

type configuredJSON struct {
	Configured  bool            `json:"configured"`
	QueueID     *string         `json:"queueId"`
	PartitionID *string         `json:"partitionId"`
	Queue       string          `json:"queue"`
	Namespace   string          `json:"namespace"`
	Task        string          `json:"task"`
	Options     json.RawMessage `json:"options"`
	Warnings    []string        `json:"warnings,omitempty"`
}

// Configure serves POST /api/v1/configure. It replaces all options and tags.
func (h *Handlers) Configure(c echo.Context) error {
	body, err := h.Bodies.Read(c)
	if err != nil {
		return err
	}
	set, err := parseConfigure(body, h.Defaults.Options())
	if err != nil {
		return err
	}
	made, err := h.Catalog.Configure(c.Request().Context(), set.Settings)
	if err != nil {
		return err
	}
	options, err := set.optionsInForce()
	if err != nil {
		return fmt.Errorf("encoding options: %w", err)
	}
	return wire.AnswerJSON(c, http.StatusOK, configuredJSON{
		Configured: true, QueueID: idOrNull(made.QueueID), PartitionID: idOrNull(made.PartitionID),
		Queue: set.Queue, Namespace: set.Namespace, Task: set.Task, Options: options, Warnings: set.warnings(),
	})
}

// configuration reads the body of a configure call.
type configuration struct {
	catalog.Settings
	// sent holds the known options of the body, unknown the other ones in order.
	sent    map[string]bool
	unknown []string
}

func parseConfigure(body []byte, defaults queue.Options) (configuration, error) {
	set := configuration{Settings: catalog.Settings{Options: defaults}}
	var hasQueue bool
	err := wire.Object(body, func(name string, value jsontext.Value) error {
		switch name {
		case "queue":
			set.Queue, hasQueue = wire.Text(value)
		case "namespace":
			set.Namespace, _ = wire.Text(value)
		case "task":
			set.Task, _ = wire.Text(value)
		case "options":
			set.Options, set.Extensions = defaults, queue.Extensions{}
			set.sent, set.unknown = map[string]bool{}, nil
			isObject, err := wire.Members(value, set.option)
			if err == nil && !isObject && value.Kind() != 'n' {
				err = queue.Invalidf("options must be an object, not %s", wire.Clip(string(value)))
			}
			return err
		}
		return nil
	})
	if err != nil {
		return set, err
	}
	if !hasQueue {
		return set, queue.Invalidf("queue is required")
	}
	for _, name := range []struct{ field, value string }{
		{"queue", set.Queue}, {"namespace", set.Namespace}, {"task", set.Task},
	} {
		if err := wire.CheckName(name.field, name.value); err != nil {
			return set, err
		}
	}
	if set.sent["retryDelay"] {
		set.Extensions.RetryBackoff = set.Options.RetryDelay
	}
	return set, nil
}

// DeleteQueue serves DELETE /api/v1/resources/queues/:queue.
func (h *Handlers) DeleteQueue(c echo.Context) error {
	p := wire.Params{Context: c}
	name := p.PathName("queue")
	if p.Err != nil {
		return p.Err
	}
	existed, err := h.Catalog.Delete(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, struct {
		Deleted bool   `json:"deleted"`
		Queue   string `json:"queue"`
		Existed bool   `json:"existed"`
	}{true, name, existed})
}

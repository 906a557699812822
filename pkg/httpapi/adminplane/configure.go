package adminplane

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

type configuredJSON struct {
	Configured  bool        `json:"configured"`
	QueueID     queue.ID    `json:"queueId"`
	PartitionID queue.ID    `json:"partitionId"`
	Queue       string      `json:"queue"`
	Namespace   string      `json:"namespace"`
	Task        string      `json:"task"`
	Options     optionsJSON `json:"options"`
	Warnings    []string    `json:"warnings,omitempty"`
}

// Configure serves POST /api/v1/configure. It replaces all options and tags.
func (h *Handlers) Configure(p *wire.Params) (any, error) {
	body, err := h.Bodies.Read(p)
	if err != nil {
		return nil, err
	}
	set, err := parseConfigure(body, h.Defaults.Options())
	if err != nil {
		return nil, err
	}
	made, err := h.Catalog.Configure(p.Ctx(), set.Settings)
	return configuredJSON{
		Configured: true, QueueID: made.QueueID, PartitionID: made.PartitionID,
		Queue: set.Queue, Namespace: set.Namespace, Task: set.Task, Options: set.optionsInForce(), Warnings: set.warnings(),
	}, err
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
func (h *Handlers) DeleteQueue(p *wire.Params) (any, error) {
	name := p.PathName("queue")
	if p.Err != nil {
		return nil, p.Err
	}
	existed, err := h.Catalog.Delete(p.Ctx(), name)
	return struct {
		Deleted bool   `json:"deleted"`
		Queue   string `json:"queue"`
		Existed bool   `json:"existed"`
	}{true, name, existed}, err
}

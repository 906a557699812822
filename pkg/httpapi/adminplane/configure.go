package adminplane

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/audit"
	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Configure serves POST /api/v1/configure. It replaces all options and tags.
func (h *Handlers) Configure(p *wire.Params) (any, error) {
	body, err := h.Bodies.Read(p)
	if err != nil {
		return nil, err
	}
	set, err := parseConfigure(body, h.Defaults)
	if err != nil {
		return nil, err
	}
	if err := wire.MayAdminister(p.Ctx(), set.Queue); err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: set.Queue}, audit.Parameters{
		"namespace": set.Namespace, "task": set.Task, "options": set.optionsInForce(),
	})
	made, err := h.Catalog.Configure(p.Ctx(), set.Settings)
	answer := wire.Fields{
		"configured", true, "queueId", made.QueueID, "partitionId", made.PartitionID,
		"queue", set.Queue, "namespace", set.Namespace, "task", set.Task, "options", set.optionsInForce(),
	}
	warnings := set.warnings()
	if made.Warning != "" {
		warnings = append(warnings, made.Warning)
	}
	if len(warnings) > 0 {
		answer = append(answer, "warnings", warnings)
	}
	return answer, err
}

// configuration reads the body of a configure call.
type configuration struct {
	catalog.Settings
	// sent holds the known options of the body, unknown the other ones in order.
	sent    map[string]bool
	unknown []string
}

func parseConfigure(body []byte, defaults queue.Defaults) (configuration, error) {
	set := configuration{Settings: catalog.Settings{Options: defaults.Options(), Extensions: defaults.Extensions()}}
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
			set.Options, set.Extensions = defaults.Options(), defaults.Extensions()
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
	return set, nil
}

// DeleteQueue serves DELETE /api/v1/resources/queues/:queue.
func (h *Handlers) DeleteQueue(p *wire.Params) (any, error) {
	name := p.PathName("queue")
	p.Check(wire.MayAdminister(p.Ctx(), name))
	if p.Err != nil {
		return nil, p.Err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: name}, nil)
	existed, err := h.Catalog.Delete(p.Ctx(), name)
	return wire.Fields{"deleted", true, "queue", name, "existed", existed}, err
}

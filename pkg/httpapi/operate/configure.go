package operate

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
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
	if wire.IsTrue(p.QueryParam("dryRun")) { // Queen MQ does not have it
		return api.Configured{QueueID: queue.ID{}.String(), PartitionID: queue.ID{}.String(), Queue: set.Queue, Namespace: set.Namespace, Task: set.Task, Options: set.optionsInForce(), Warnings: set.warnings("")}, nil
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: set.Queue}, audit.Parameters{
		"namespace": set.Namespace, "task": set.Task, "options": set.optionsInForce(),
	})
	made, err := h.Catalog.Configure(p.Ctx(), set.Settings)
	return api.Configured{
		Configured: true, QueueID: made.QueueID.String(), PartitionID: made.PartitionID.String(),
		Queue: set.Queue, Namespace: set.Namespace, Task: set.Task, Options: set.optionsInForce(), Warnings: set.warnings(made.Warning),
	}, err
}

// ChangeQueue serves PATCH /api/v1/resources/queues/:queue. It changes only the tags and options in the body.
// Queen MQ does not have this route.
func (h *Handlers) ChangeQueue(p *wire.Params) (any, error) {
	name := p.PathName("queue")
	p.Check(wire.MayAdminister(p.Ctx(), name))
	if p.Err != nil {
		return nil, p.Err
	}
	body, err := h.Bodies.Read(p)
	if err != nil {
		return nil, err
	}
	set, named := configuration{}, audit.Parameters{}
	if err := set.parseChange(body, named); err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: name}, named)
	now, changed, err := h.Catalog.Change(p.Ctx(), name, func(now *catalog.Settings) {
		set.Settings = *now
		_ = set.parseChange(body, audit.Parameters{}) // the first call has shown that the body is valid
		*now = set.Settings
	})
	if err != nil {
		return nil, err
	}
	return api.ChangedQueue{
		Configured: true, QueueID: changed.QueueID.String(), Queue: name, Namespace: now.Namespace, Task: now.Task,
		Options: observe.ConfiguredOptions(&now.Options, &now.Extensions), Warnings: set.warnings(changed.Warning),
	}, nil
}

// parseChange reads a body that contains only changes. It sets them in the settings and in named. null counts as not sent.
func (set *configuration) parseChange(body []byte, named audit.Parameters) error {
	set.sent, set.unknown = map[string]bool{}, nil
	return wire.Object(body, func(name string, value jsontext.Value) error {
		if value.Kind() == 'n' {
			return nil
		}
		tags := map[string]*string{"namespace": &set.Namespace, "task": &set.Task}
		switch tag := tags[name]; {
		case tag != nil:
			text, ok := wire.Text(value)
			if !ok {
				return queue.Invalidf("%s must be a string, not %s", name, wire.Clip(string(value)))
			}
			*tag, named[name] = text, text
			return wire.CheckName(name, text)
		case name == "options":
			isObject, err := wire.Members(value, set.option)
			if err == nil && !isObject {
				err = queue.Invalidf("options must be an object, not %s", wire.Clip(string(value)))
			}
			options := map[string]any{}
			for option := range set.sent {
				switch number, flag := set.numbers()[option], set.flags()[option]; {
				case number != nil:
					options[option] = *number
				case flag != nil:
					options[option] = *flag
				default:
					options[option] = set.Extensions.TenantDelimiter
				}
			}
			named["options"] = options
			return err
		default:
			return queue.Invalidf("%s is unknown: send namespace, task or options", wire.Clip(name))
		}
	})
}

// configuration reads the body of a configure call.
type configuration struct {
	catalog.Settings
	// sent has the known options of the body. unknown has the unknown options in order.
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
	return api.DeletedQueue{Deleted: true, Queue: name, Existed: existed}, err
}

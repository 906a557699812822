package operate

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// PauseQueue returns the handler of POST /api/v1/resources/queues/:queue/pause if paused is true, and otherwise of
// .../resume.
func (h *Handlers) PauseQueue(paused bool) func(p *wire.Params) (any, error) {
	return func(p *wire.Params) (any, error) {
		name := p.PathName("queue")
		p.Check(wire.MayAdminister(p.Ctx(), name))
		return h.setPaused(p, catalog.Pausable{Queue: name}, paused)
	}
}

// PausePartition returns the handler of POST /api/v1/resources/queues/:queue/partitions/:partition/pause
// if paused is true, and otherwise of .../resume.
func (h *Handlers) PausePartition(paused bool) func(p *wire.Params) (any, error) {
	return func(p *wire.Params) (any, error) {
		name, partition := p.PathName("queue"), p.PathName("partition")
		p.Check(wire.MayAdminister(p.Ctx(), name))
		return h.setPaused(p, catalog.Pausable{Queue: name, Partition: partition}, paused)
	}
}

// PauseGroup returns the handler of POST /api/v1/consumer-groups/:group/queues/:queue/pause if paused is
// true, and otherwise of .../resume.
func (h *Handlers) PauseGroup(paused bool) func(p *wire.Params) (any, error) {
	return func(p *wire.Params) (any, error) {
		name, group := p.PathName("queue"), p.PathName("group")
		p.Check(wire.MayConsume(p.Ctx(), name, group))
		return h.setPaused(p, catalog.Pausable{Queue: name, Group: group}, paused)
	}
}

func (h *Handlers) setPaused(p *wire.Params, what catalog.Pausable, paused bool) (any, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	parameters, reason := audit.Parameters{}, ""
	err := h.Bodies.ReadOptionalObject(p, func(name string, value jsontext.Value) (err error) {
		if name != "reason" || value.Kind() == 'n' {
			return nil
		}
		reason, err = readReason(value)
		parameters["reason"] = reason
		return err
	})
	if err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: what.Queue, Partition: what.Partition, Group: what.Group}, parameters)
	changed, err := h.Catalog.SetPaused(p.Ctx(), what, paused, reason)
	if queue.CodeOf(err) == queue.CodeNotFound {
		return wire.NotFound(p, err)
	}
	return api.Paused{
		Success: true, Queue: what.Queue, Partition: wire.OrNull(what.Partition), Group: wire.OrNull(what.Group), Paused: paused, Changed: changed,
	}, err
}

// maxReason is the greatest number of characters of a reason.
const maxReason = 1000

func readReason(value jsontext.Value) (string, error) {
	reason, ok := wire.Text(value)
	switch n := utf8.RuneCountInString(reason); {
	case !ok:
		return "", queue.Invalidf("reason must be a string")
	case n > maxReason:
		return "", queue.Invalidf("reason has %d characters: it must have at most %d", n, maxReason)
	case strings.ContainsRune(reason, 0):
		return "", queue.Invalidf("reason contains the character NUL")
	}
	return reason, nil
}

// listedPauses is how many pauses a list has.
const listedPauses = 1000

// ListPauses serves GET /api/v1/pauses. Queen MQ does not have it.
func (h *Handlers) ListPauses(p *wire.Params) (any, error) {
	name := p.Name("queue")
	if name != nil {
		p.Check(wire.MayRead(p.Ctx(), *name))
	}
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Catalog.Pauses(p.Ctx(), name, identity.GrantsOf(p.Ctx()).Readable(), listedPauses)
	return api.Pauses{Pauses: wire.Each(found, func(one *catalog.Paused) api.Pause {
		return api.Pause{Queue: one.Queue, Partition: wire.OrNull(one.Partition), Group: wire.OrNull(one.Group), Reason: wire.OrNull(one.Reason)}
	})}, err
}

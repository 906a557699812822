package operate

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// selection selects the rejected rows of a retry or a discard.
type selection struct {
	inbox.RejectedFilter
	all bool
}

// set sets a field. A retry has the fields in its body, and a discard has them as parameters.
func (s *selection) set(name, value string) (err error) {
	if value == "" {
		return queue.Invalidf("%s is empty: send a value, or remove the field", wire.Clip(name))
	}
	if name == "queue" || name == "code" {
		if err := wire.CheckName(name, value); err != nil {
			return err
		}
	}
	switch name {
	case "queue":
		s.Queue = &value
	case "code":
		s.Code = &value
		return observe.CheckRejectionCode(s.Code)
	case "id":
		s.ID, err = strconv.ParseInt(value, 10, 64)
		if err != nil || s.ID <= 0 {
			return queue.Invalidf("id is %s: use the id of a rejected row", wire.Clip(fmt.Sprintf("%q", value)))
		}
	case "all":
		if s.all = value == "true"; !s.all && value != "false" {
			return queue.Invalidf("all must be true or false, not %s", wire.Clip(fmt.Sprintf("%q", value)))
		}
	default:
		return queue.Invalidf("%s is unknown: use id, queue, code and all", wire.Clip(fmt.Sprintf("%q", name)))
	}
	return nil
}

// check returns an error if the selection is empty, or if the grants of the sender do not allow it.
func (s *selection) check(p *wire.Params, checkQueue func(queueName string) error) error {
	switch {
	case s.ID == 0 && s.Queue == nil && s.Code == nil && !s.all:
		return queue.Invalidf("the rejected rows are not selected: send id, queue or code, or all: true for every rejected row")
	case s.Queue != nil:
		return checkQueue(*s.Queue)
	case identity.GrantsOf(p.Ctx()) != nil:
		return queue.Invalidf("queue is required: the token is limited to some queues")
	}
	return nil
}

// begin begins the row of the audit.
func (s *selection) begin(p *wire.Params) {
	parameters := audit.Parameters{"all": s.all}
	if s.ID != 0 {
		parameters["id"] = strconv.FormatInt(s.ID, 10)
	}
	if s.Code != nil {
		parameters["code"] = *s.Code
	}
	audit.Begin(p.Ctx(), audit.Target{Queue: orEmpty(s.Queue)}, parameters)
}

// RetryInbox serves POST /api/v1/inbox/rejected/retry. Queen MQ does not have this route.
func (h *Handlers) RetryInbox(p *wire.Params) (any, error) {
	var s selection
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) error {
		if value.Kind() == 'n' {
			return nil
		}
		text, ok := wire.Text(value)
		if isFlag := value.Kind() == 't' || value.Kind() == 'f'; name == "all" && isFlag {
			text, ok = string(value), true
		}
		if !ok {
			return queue.Invalidf("%s is %[2]s: id, queue and code must be strings, and all must be true or false", wire.Clip(name), wire.Clip(string(value)))
		}
		return s.set(name, text)
	})
	if err == nil {
		err = s.check(p, func(queueName string) error { return wire.MayPush(p.Ctx(), queueName) })
	}
	if err != nil {
		return nil, err
	}
	s.begin(p)
	n, more, err := h.Rejections.Retry(p.Ctx(), s.RejectedFilter)
	return api.RetriedRows{Success: true, Retried: n, More: more}, err
}

// DiscardInbox serves DELETE /api/v1/inbox/rejected. Queen MQ does not have this route.
func (h *Handlers) DiscardInbox(p *wire.Params) (any, error) {
	var s selection
	for name, values := range p.QueryParams() {
		p.Check(s.set(name, values[0]))
	}
	p.Check(s.check(p, func(queueName string) error { return wire.MayAdminister(p.Ctx(), queueName) }))
	if p.Err != nil {
		return nil, p.Err
	}
	s.begin(p)
	n, more, err := h.Rejections.Discard(p.Ctx(), s.RejectedFilter)
	return api.DiscardedRows{Success: true, Discarded: n, More: more}, err
}

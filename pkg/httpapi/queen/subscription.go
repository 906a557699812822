package queen

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// SetSubscriptionStart serves POST /api/v1/consumer-groups/:group/subscription.
func (h *Handlers) SetSubscriptionStart(p *wire.Params) (any, error) {
	group := p.PathName("group")
	if p.Err != nil {
		return nil, p.Err
	}
	var start time.Time
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) (err error) {
		if name != "subscriptionTimestamp" || value.Kind() == 'n' {
			return nil
		}
		start, err = wire.TimestampValue(name, value)
		return err
	})
	if err == nil && start.IsZero() {
		err = queue.Invalidf("subscriptionTimestamp is required: a timestamp like 2026-05-16T08:41:27.123Z")
	}
	if err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{Group: group}, audit.Parameters{"subscriptionTimestamp": start})
	moved, err := h.GroupWriter.SetSubscriptionStart(p.Ctx(), group, start)
	return wire.Fields{"success", true, "consumerGroup", group, "newTimestamp", start, "rowsUpdated", moved}, err
}

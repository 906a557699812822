package operate

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/deadletters"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxRate is the maximum rate of a redrive in messages per second.
const maxRate = 100_000

// redriveRequest reads the body of a redrive.
type redriveRequest struct {
	deadletter.Filter
	// toQueue is the queue to which the messages are moved. If it is nil, the dead letters are redriven.
	toQueue     *string
	all, dryRun bool
	rate        int64
	// asOf is the text of AsOf.
	asOf *string
}

func (r *redriveRequest) member(name string, value jsontext.Value) (err error) {
	names := map[string]**string{
		"queue": &r.Queue, "consumerGroup": &r.Group, "partition": &r.Partition, "transactionId": &r.TransactionID, "toQueue": &r.toQueue, "asOf": &r.asOf,
	}
	flags := map[string]*bool{"all": &r.all, "dryRun": &r.dryRun}
	if value.Kind() == 'n' {
		return nil
	}
	if into, ok := names[name]; ok {
		return nameMember(name, value, into)
	}
	if into, ok := flags[name]; ok {
		*into, err = wire.Bool(name, value)
		return err
	}
	switch name {
	case "from", "to":
		at, ok := wire.Text(value)
		if !ok || at == "" {
			return queue.Invalidf("%s must be an instant as a string, not %s", name, wire.Clip(string(value)))
		}
		into := &r.From
		if name == "to" {
			into = &r.To
		}
		*into, err = wire.Instant(name, at)
	case "error", "errorShape":
		text, ok := wire.Text(value)
		switch {
		case !ok || text == "" || strings.ContainsRune(text, 0):
			return queue.Invalidf("%s must be the beginning of an error as a string, not %s", name, wire.Clip(string(value)))
		case name == "errorShape":
			r.Shape = &text
		default:
			text = deadletters.FirstCharacters(text)
			r.Error = &text
		}
	case "rate":
		r.rate, err = wire.WholeNumber("rate", value)
		if err == nil && (r.rate < 1 || r.rate > maxRate) {
			err = queue.Invalidf("rate is %d: it must be between 1 and %d messages per second", r.rate, maxRate)
		}
	default: // if a redrive ignored a misspelled filter, it would redrive too many messages
		err = queue.Invalidf("%s is not a field of a redrive: use queue, consumerGroup, partition, transactionId, error, errorShape, from, to, all, rate, toQueue, asOf and dryRun",
			wire.Clip(fmt.Sprintf("%q", name)))
	}
	return err
}

// readRedrive reads and checks the body of a redrive.
func (h *Handlers) readRedrive(p *wire.Params) (r redriveRequest, err error) {
	if err := h.Bodies.ReadObject(p, r.member); err != nil {
		return r, err
	}
	switch {
	case r.Queue == nil:
		return r, queue.Invalidf("queue is required")
	case r.Group == nil || *r.Group == "":
		return r, queue.Invalidf("consumerGroup is required: send %s for the reader without a group", queue.DefaultGroup)
	case !r.all && r.Partition == nil && r.TransactionID == nil && r.Error == nil && r.Shape == nil && r.From.IsZero() && r.To.IsZero():
		return r, queue.Invalidf("the dead letters are not selected: send transactionId, partition, error, errorShape, from or to, or all: true for every dead letter of the queue and consumerGroup")
	}
	if err := wire.CheckSpan(r.From, r.To); err != nil {
		return r, err
	}
	if r.asOf != nil {
		if r.AsOf, err = deadletter.ParseAsOf(*r.asOf, &r.Filter); err != nil {
			return r, err
		}
	}
	if r.toQueue != nil {
		if *r.toQueue == *r.Queue {
			return r, queue.Invalidf("toQueue is the same as queue: remove toQueue to deliver the dead letters again")
		}
		if err := wire.MayPush(p.Ctx(), *r.toQueue); err != nil {
			return r, err
		}
	}
	return r, wire.MayConsume(p.Ctx(), *r.Queue, *r.Group)
}

// begin begins the row of the audit.
func (r *redriveRequest) begin(p *wire.Params) {
	parameters := audit.Parameters{"all": r.all}
	if r.rate > 0 {
		parameters["rate"] = r.rate
	}
	if r.toQueue != nil {
		parameters["toQueue"] = *r.toQueue
	}
	beginAudit(p, r.Filter, parameters)
}

// Redrive serves POST /api/v1/dlq/redrive. It delivers dead letters of a queue and group to
// the group again, or moves them to another queue. Queen MQ does not have this route.
func (h *Handlers) Redrive(p *wire.Params) (any, error) {
	r, err := h.readRedrive(p)
	if err != nil {
		return nil, err
	}
	if !r.dryRun {
		r.begin(p)
	}
	var done deadletter.Result
	if r.toQueue != nil {
		done, err = h.DeadLetters.Move(p.Ctx(), r.Filter, *r.toQueue, r.rate, r.dryRun)
	} else {
		done, err = h.DeadLetters.Redrive(p.Ctx(), r.Filter, r.rate, r.dryRun)
	}
	return api.Redriven{Success: true, Queue: *r.Queue, Group: *r.Group, DryRun: r.dryRun, RedriveCounts: countsOf(&done), ToQueue: orEmpty(r.toQueue), AsOf: done.AsOf.String()}, err
}

package adminplane

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/audit"
	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxRate bounds the rate of a redrive, in messages per second.
const maxRate = 100_000

// redriveRequest reads the body of a redrive.
type redriveRequest struct {
	deadletter.Filter
	all, dryRun bool
	rate        int64
}

func (r *redriveRequest) member(name string, value jsontext.Value) (err error) {
	names := map[string]**string{
		"queue": &r.Queue, "consumerGroup": &r.Group, "partition": &r.Partition, "transactionId": &r.TransactionID,
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
	case "rate":
		r.rate, err = wire.WholeNumber("rate", value)
		if err == nil && (r.rate < 1 || r.rate > maxRate) {
			err = queue.Invalidf("rate is %d: it must be between 1 and %d messages per second", r.rate, maxRate)
		}
	default: // a redrive that ignored a misspelled filter would redrive more
		err = queue.Invalidf("%s is no field of a redrive: use queue, consumerGroup, partition, transactionId, from, to, all, rate and dryRun",
			wire.Clip(fmt.Sprintf("%q", name)))
	}
	return err
}

// nameMember reads a name or a transaction id.
func nameMember(field string, value jsontext.Value, into **string) error {
	name, ok := wire.Text(value)
	if !ok {
		return queue.Invalidf("%s must be a string, not %s", field, wire.Clip(string(value)))
	}
	*into = &name
	if field == "transactionId" {
		if strings.ContainsRune(name, 0) {
			return queue.Invalidf("transactionId contains a NUL character: remove it")
		}
		return nil
	}
	return wire.CheckName(field, name)
}

// Redrive serves POST /api/v1/dlq/redrive: dead letters of a queue and group are
// delivered to that group again. Queen MQ does not have it.
func (h *Handlers) Redrive(p *wire.Params) (any, error) {
	var r redriveRequest
	if err := h.Bodies.ReadObject(p, r.member); err != nil {
		return nil, err
	}
	switch {
	case r.Queue == nil:
		return nil, queue.Invalidf("queue is required")
	case r.Group == nil:
		return nil, queue.Invalidf("consumerGroup is required: what is redriven goes to one group; the reader without one is %s", queue.DefaultGroup)
	case !r.all && r.Partition == nil && r.TransactionID == nil && r.From.IsZero() && r.To.IsZero():
		return nil, queue.Invalidf("say which: transactionId, partition, from, to, or all: true for every dead letter of the queue and consumerGroup")
	}
	if err := checkSpan(r.From, r.To); err != nil {
		return nil, err
	}
	if err := wire.MayConsume(p.Ctx(), *r.Queue, *r.Group); err != nil {
		return nil, err
	}
	if !r.dryRun {
		parameters := audit.Parameters{"all": r.all}
		if r.rate > 0 {
			parameters["rate"] = r.rate
		}
		beginAudit(p, r.Filter, parameters)
	}
	done, err := h.DeadLetters.Redrive(p.Ctx(), r.Filter, r.rate, r.dryRun)
	return wire.Fields{
		"success", true, "queue", r.Queue, "consumerGroup", r.Group, "dryRun", r.dryRun,
		"matched", done.Matched, "redriven", done.Taken, "skipped", done.Skipped, "remaining", done.Remaining,
	}, err
}

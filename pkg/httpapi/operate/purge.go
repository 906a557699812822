package operate

import (
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/deadletters"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// PurgeDeadLetters serves DELETE /api/v1/dlq. Queen MQ does not have this route.
func (h *Handlers) PurgeDeadLetters(p *wire.Params) (any, error) {
	r, err := readPurge(p)
	if err != nil {
		return nil, err
	}
	if !r.dryRun {
		beginAudit(p, r.Filter, nil)
	}
	done, err := h.DeadLetters.Purge(p.Ctx(), r.Filter, r.dryRun)
	return api.Purged{
		Success: true, Queue: *r.Queue, DryRun: r.dryRun, Matched: done.Matched, Purged: done.Taken, Remaining: done.Remaining, AsOf: done.AsOf.String(),
	}, err
}

// purgeRequest holds the query of a purge.
type purgeRequest struct {
	deadletter.Filter
	dryRun bool
}

// readPurge reads and checks the query of a purge.
func readPurge(p *wire.Params) (r purgeRequest, err error) {
	r.Filter = deadletters.ReadFilter(p)
	if p.Err != nil {
		return r, p.Err
	}
	if r.Queue == nil {
		return r, queue.Invalidf("queue is required: send the queue of the dead letters to delete")
	}
	if r.dryRun, err = purgeFlag(p); err != nil {
		return r, err
	}
	if text := p.QueryParam("asOf"); text != "" {
		if r.AsOf, err = deadletter.ParseAsOf(text, &r.Filter); err != nil {
			return r, err
		}
	}
	return r, wire.MayAdminister(p.Ctx(), *r.Queue)
}

func errDryRunHere(instead string) error {
	return queue.Invalidf("dryRun is not possible here: use %s", instead)
}

// beginAudit begins the row of the audit for a redrive or a purge.
func beginAudit(p *wire.Params, f deadletter.Filter, parameters audit.Parameters) {
	if parameters == nil {
		parameters = audit.Parameters{}
	}
	for name, text := range map[string]*string{"error": f.Error, "errorShape": f.Shape} {
		if text != nil {
			parameters[name] = *text
		}
	}
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			parameters[name] = at
		}
	}
	audit.Begin(p.Ctx(), audit.Target{
		Queue: orEmpty(f.Queue), Group: orEmpty(f.Group), Partition: orEmpty(f.Partition), TransactionID: orEmpty(f.TransactionID),
	}, parameters)
}

// purgeFlag reads dryRun. It returns an error for an unknown parameter. If a purge ignored a
// misspelled filter, it would delete too many dead letters.
func purgeFlag(c echo.Context) (dryRun bool, err error) {
	for name := range c.QueryParams() {
		switch name {
		case "queue", "consumerGroup", "partition", "transactionId", "error", "errorShape", "from", "to", "dryRun", "asOf":
		default:
			return false, queue.Invalidf("%s is not a parameter of a purge: use queue, consumerGroup, partition, transactionId, error, errorShape, from, to, dryRun and asOf",
				wire.Clip(fmt.Sprintf("%q", name)))
		}
	}
	switch text := c.QueryParam("dryRun"); text {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	default:
		return false, queue.Invalidf("dryRun is %s: it must be true or false", wire.Clip(fmt.Sprintf("%q", text)))
	}
}

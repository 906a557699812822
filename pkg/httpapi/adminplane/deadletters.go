package adminplane

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/audit"
	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListDeadLetters serves GET /api/v1/dlq.
func (h *Handlers) ListDeadLetters(p *wire.Params) (any, error) {
	filter, page := deadLetterFilter(p), readPage(p, 100)
	after := deadletter.ListKey{}
	p.Check(mayReadNamed(p, filter.Queue))
	after.FailedAt, after.ID = readCursor(p, func(id string) (int64, error) { return strconv.ParseInt(id, 10, 64) })
	if p.Err != nil {
		return nil, p.Err
	}
	letters, total, err := h.DeadLetters.List(p.Ctx(), filter, after, page.Limit, page.Offset)
	next := nextPage(page, letters, func(last *deadletter.Letter) string { return cursor(last.FailedAt, last.ID) })
	return wire.Fields{"messages", each(letters, deadLetterRow), "total", total, "pagination", next}, err
}

func deadLetterRow(l *deadletter.Letter) wire.Fields {
	var transactionID *string // null for a message that is deleted
	if !l.MessageID.IsZero() {
		transactionID = &l.TransactionID
	}
	row := wire.Fields{
		"id", l.MessageID, "transactionId", transactionID, "partitionId", l.PartitionID, "queue", l.Queue,
		"partition", l.Partition, "consumerGroup", l.Group, "errorMessage", l.Error, "retryCount", l.Failures, "data", jsontext.Value(l.Payload),
	}
	if l.PayloadError != "" {
		row = append(row, "dataError", l.PayloadError)
	}
	return append(row, "producerSub", orNull(l.ProducerSub), "createdAt", l.CreatedAt, "failedAt", l.FailedAt)
}

// transactionIDOf returns the transaction id in the query, or "".
func transactionIDOf(p *wire.Params) string {
	id := p.QueryParam("transactionId")
	if !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		p.Check(queue.Invalidf("transactionId is not UTF-8 without NUL"))
	}
	return id
}

// deadLetterFilter reads the query of a list or of a purge.
func deadLetterFilter(p *wire.Params) deadletter.Filter {
	f := deadletter.Filter{Queue: p.Name("queue"), Group: p.Name("consumerGroup"), Partition: p.Name("partition")}
	f.TransactionID = orNull(transactionIDOf(p))
	f.From, f.To = p.Instant("from"), p.Instant("to")
	p.Check(checkSpan(f.From, f.To))
	f.Allowed = readable(p)
	return f
}

// checkSpan refuses a filter whose end is before its start.
func checkSpan(from, to time.Time) error {
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return queue.Invalidf("to is before from: exchange them")
	}
	return nil
}

// PurgeDeadLetters serves DELETE /api/v1/dlq. Queen MQ does not have it.
func (h *Handlers) PurgeDeadLetters(p *wire.Params) (any, error) {
	filter := deadLetterFilter(p)
	if p.Err != nil {
		return nil, p.Err
	}
	if filter.Queue == nil {
		return nil, queue.Invalidf("queue is required: name the queue whose dead letters are to be deleted")
	}
	dryRun, err := purgeFlag(p)
	if err != nil {
		return nil, err
	}
	if err := wire.MayAdminister(p.Ctx(), *filter.Queue); err != nil {
		return nil, err
	}
	if !dryRun {
		beginAudit(p, filter, nil)
	}
	done, err := h.DeadLetters.Purge(p.Ctx(), filter, dryRun)
	return wire.Fields{
		"success", true, "queue", filter.Queue, "dryRun", dryRun,
		"matched", done.Matched, "purged", done.Taken, "remaining", done.Remaining,
	}, err
}

// beginAudit begins the audit of a redrive or a purge.
func beginAudit(p *wire.Params, f deadletter.Filter, parameters audit.Parameters) {
	if parameters == nil {
		parameters = audit.Parameters{}
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

// purgeFlag reads dryRun. It refuses an unknown parameter: a purge that ignored a
// misspelled filter would delete more messages.
func purgeFlag(c echo.Context) (dryRun bool, err error) {
	for name := range c.QueryParams() {
		switch name {
		case "queue", "consumerGroup", "partition", "transactionId", "from", "to", "dryRun":
		default:
			return false, queue.Invalidf("%s is no parameter of a purge: use queue, consumerGroup, partition, transactionId, from, to and dryRun",
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

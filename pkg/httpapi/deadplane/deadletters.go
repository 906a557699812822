package deadplane

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListDeadLetters serves GET /api/v1/dlq.
func (h *Handlers) ListDeadLetters(p *wire.Params) (any, error) {
	filter, page := deadLetterFilter(p), wire.ReadPage(p, 100)
	after := deadletter.ListKey{}
	p.Check(mayRead(p, filter.Queue))
	after.FailedAt, after.ID = wire.ReadCursor(p, func(id string) (int64, error) { return strconv.ParseInt(id, 10, 64) })
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Letters.List(p.Ctx(), filter, after, page.Limit, page.Offset)
	next := wire.NextPage(page.Cut(len(found.Letters), found.Cut), found.Letters, func(last *deadletter.Letter) string { return wire.Cursor(last.FailedAt, last.ID) })
	return wire.Fields{"messages", wire.Each(found.Letters, deadLetterRow), "total", found.Total, "pagination", next}, err
}

func deadLetterRow(l *deadletter.Letter) wire.Fields {
	var transactionID *string // null for a message that is deleted
	if !l.MessageID.IsZero() {
		transactionID = &l.TransactionID
	}
	row := wire.Fields{
		"id", l.MessageID, "transactionId", transactionID, "partitionId", l.PartitionID, "queue", l.Queue,
		"partition", l.Partition, "consumerGroup", l.Group, "errorMessage", l.Error, "retryCount", l.Failures, "data", wire.Stored(l.Payload),
	}
	if l.PayloadError != "" {
		row = append(row, "dataError", l.PayloadError)
	}
	return append(row, "producerSub", wire.OrNull(l.ProducerSub), "createdAt", l.CreatedAt, "failedAt", l.FailedAt)
}

// deadLetterFilter reads the query of a list or of a purge.
func deadLetterFilter(p *wire.Params) deadletter.Filter {
	f := deadletter.Filter{Queue: p.Name("queue"), Group: p.Name("consumerGroup"), Partition: p.Name("partition")}
	f.Error = errorOf(p)
	f.TransactionID = wire.OrNull(p.TransactionID())
	f.From, f.To = p.Instant("from"), p.Instant("to")
	p.Check(wire.CheckSpan(f.From, f.To))
	f.Allowed = identity.GrantsOf(p.Ctx()).Readable()
	return f
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
	done, err := h.Letters.Purge(p.Ctx(), filter, dryRun)
	return wire.Fields{
		"success", true, "queue", filter.Queue, "dryRun", dryRun,
		"matched", done.Matched, "purged", done.Taken, "remaining", done.Remaining,
	}, err
}

// mayRead returns CodeForbidden if a filter names a queue that the sender may not see.
func mayRead(p *wire.Params, queueName *string) error {
	if queueName == nil {
		return nil
	}
	return wire.MayRead(p.Ctx(), *queueName)
}

// errorOf returns the error in the query. An absent or empty one is nil.
func errorOf(p *wire.Params) *string {
	text := p.QueryParam("error")
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		p.Check(queue.Invalidf("error is not UTF-8 without NUL"))
	}
	return wire.OrNull(firstCharacters(text))
}

// firstCharacters returns what a filter compares of an error.
func firstCharacters(text string) string {
	n := 0
	for i := range text {
		if n == deadletter.MaxError {
			return text[:i]
		}
		n++
	}
	return text
}

// beginAudit begins the audit of a redrive or a purge.
func beginAudit(p *wire.Params, f deadletter.Filter, parameters audit.Parameters) {
	if parameters == nil {
		parameters = audit.Parameters{}
	}
	if f.Error != nil {
		parameters["error"] = *f.Error
	}
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			parameters[name] = at
		}
	}
	audit.Begin(p.Ctx(), audit.Target{
		Queue: wire.OrEmpty(f.Queue), Group: wire.OrEmpty(f.Group), Partition: wire.OrEmpty(f.Partition), TransactionID: wire.OrEmpty(f.TransactionID),
	}, parameters)
}

// purgeFlag reads dryRun. It refuses an unknown parameter: a purge that ignored a
// misspelled filter would delete more messages.
func purgeFlag(c echo.Context) (dryRun bool, err error) {
	for name := range c.QueryParams() {
		switch name {
		case "queue", "consumerGroup", "partition", "transactionId", "error", "from", "to", "dryRun":
		default:
			return false, queue.Invalidf("%s is no parameter of a purge: use queue, consumerGroup, partition, transactionId, error, from, to and dryRun",
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

package deadletters

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// List serves GET /api/v1/dlq.
func (h *Handlers) List(p *wire.Params) (any, error) {
	filter, page := ReadFilter(p), wire.ReadPage(p, 100)
	after := deadletter.ListKey{}
	p.Check(observe.MayReadNamed(p, filter.Queue))
	after.FailedAt, after.ID = wire.ReadCursor(p, func(id string) (int64, error) { return strconv.ParseInt(id, 10, 64) })
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Letters.List(p.Ctx(), filter, after, page.Limit, page.Offset)
	next := wire.NextPage(wire.Cut(page, len(found.Letters), found.Cut), found.Letters, func(last *deadletter.Letter) string { return wire.Cursor(last.FailedAt, last.ID) })
	return api.DeadLetters{Messages: wire.Each(found.Letters, Row), Total: found.Total, Pagination: next}, err
}

// Row describes a dead letter.
func Row(l *deadletter.Letter) api.DeadLetter {
	row := api.DeadLetter{
		ID: wire.IDOrNull(l.MessageID), PartitionID: l.PartitionID.String(), Queue: l.Queue, Partition: l.Partition, ConsumerGroup: l.Group,
		ErrorMessage: l.Error, RetryCount: int64(l.Failures), Data: l.Payload, DataError: l.PayloadError, ProducerSub: wire.OrNull(l.ProducerSub),
		Headers: l.Headers.Map(), CreatedAt: &l.CreatedAt, FailedAt: l.FailedAt,
	}
	if row.ID != nil { // the message is not deleted
		row.TransactionID = &l.TransactionID
	}
	return row
}

// ReadFilter reads the parameters of a list or a purge.
func ReadFilter(p *wire.Params) deadletter.Filter {
	f := deadletter.Filter{Queue: p.Name("queue"), Group: p.Name("consumerGroup"), Partition: p.Name("partition")}
	if text := errorOf(p, "error"); text != nil {
		first := FirstCharacters(*text)
		f.Error = &first
	}
	f.Shape = errorOf(p, "errorShape")
	f.TransactionID = wire.OrNull(p.TransactionID())
	f.From, f.To = p.Instant("from"), p.Instant("to")
	p.Check(wire.CheckSpan(f.From, f.To))
	f.Allowed = identity.GrantsOf(p.Ctx()).Readable()
	return f
}

// errorOf returns a parameter with an error or its shape, or nil if the parameter is absent or empty.
func errorOf(p *wire.Params, name string) *string {
	text := p.QueryParam(name)
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		p.Check(queue.Invalidf("%s contains a NUL character or is not UTF-8", name))
	}
	return wire.OrNull(text)
}

// FirstCharacters returns the first characters of an error, which a filter compares.
func FirstCharacters(text string) string {
	n := 0
	for i := range text {
		if n == deadletter.MaxError {
			return text[:i]
		}
		n++
	}
	return text
}

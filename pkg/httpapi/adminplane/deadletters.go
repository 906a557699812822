package adminplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

type deadLetterJSON struct {
	ID            *string         `json:"id"`
	TransactionID *string         `json:"transactionId"`
	PartitionID   string          `json:"partitionId"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	Group         string          `json:"consumerGroup"`
	Error         string          `json:"errorMessage"`
	RetryCount    int             `json:"retryCount"`
	Data          json.RawMessage `json:"data"`
	DataError     string          `json:"dataError,omitempty"`
	ProducerSub   *string         `json:"producerSub"`
	CreatedAt     *string         `json:"createdAt"`
	FailedAt      string          `json:"failedAt"`
}

type deadLettersJSON struct {
	Messages   []deadLetterJSON `json:"messages"`
	Total      int64            `json:"total"`
	Pagination nextPageJSON     `json:"pagination"`
}

// ListDeadLetters serves GET /api/v1/dlq.
func (h *Handlers) ListDeadLetters(c echo.Context) error {
	p := &wire.Params{Context: c}
	filter, page := deadLetterFilter(p), readPage(p, 100)
	after := deadletter.ListKey{FailedAt: page.at}
	if page.id != "" {
		id, err := strconv.ParseInt(page.id, 10, 64)
		if err != nil {
			p.Check(errCursor(c.QueryParam("cursor")))
		}
		after.ID = id
	}
	if p.Err != nil {
		return p.Err
	}
	letters, total, err := h.DeadLetters.List(c.Request().Context(), filter, after, int64(page.limit), int64(page.offset))
	if err != nil {
		return err
	}
	out := deadLettersJSON{Messages: each(letters, toDeadLetterJSON), Total: total, Pagination: nextPageJSON{pageJSON: page.json()}}
	if n := len(letters); n > 0 {
		last := &letters[n-1]
		out.Pagination = page.next(n, last.FailedAt, strconv.FormatInt(last.ID, 10))
	}
	return wire.AnswerJSON(c, http.StatusOK, out)
}

func toDeadLetterJSON(l *deadletter.Letter) deadLetterJSON {
	out := deadLetterJSON{
		PartitionID: l.PartitionID.String(), Queue: l.Queue, Partition: l.Partition, Group: l.Group,
		Error: l.Error, RetryCount: l.Failures, Data: payloadOrNull(l.Payload), DataError: l.PayloadError,
		ProducerSub: orNull(l.ProducerSub), CreatedAt: millisOrNull(l.CreatedAt), FailedAt: wire.FormatMillis(l.FailedAt),
	}
	if !l.MessageID.IsZero() {
		out.ID, out.TransactionID = idOrNull(l.MessageID), &l.TransactionID
	}
	return out
}

// deadLetterFilter reads the query of a list or of a purge.
func deadLetterFilter(p *wire.Params) deadletter.Filter {
	f := deadletter.Filter{Queue: p.Name("queue"), Group: p.Name("consumerGroup"), Partition: p.Name("partition")}
	if id := p.QueryParam("transactionId"); id != "" {
		if !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
			p.Check(queue.Invalidf("transactionId is not UTF-8 without NUL"))
		}
		f.TransactionID = &id
	}
	f.From, f.To = p.Instant("from"), p.Instant("to")
	p.Check(checkSpan(f))
	return f
}

// checkSpan refuses a filter whose end is before its start.
func checkSpan(f deadletter.Filter) error {
	if !f.From.IsZero() && !f.To.IsZero() && f.To.Before(f.From) {
		return queue.Invalidf("to is before from: exchange them")
	}
	return nil
}

// PurgeDeadLetters serves DELETE /api/v1/dlq. Queen MQ does not have it.
func (h *Handlers) PurgeDeadLetters(c echo.Context) error {
	p := &wire.Params{Context: c}
	filter := deadLetterFilter(p)
	if p.Err != nil {
		return p.Err
	}
	if filter.Queue == nil {
		return queue.Invalidf("queue is required: name the queue whose dead letters are to be deleted")
	}
	dryRun, err := purgeFlag(c)
	if err != nil {
		return err
	}
	done, err := h.DeadLetters.Purge(c.Request().Context(), filter, dryRun)
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, struct {
		Success   bool   `json:"success"`
		Queue     string `json:"queue"`
		DryRun    bool   `json:"dryRun"`
		Matched   int64  `json:"matched"`
		Purged    int64  `json:"purged"`
		Remaining int64  `json:"remaining"`
	}{true, *filter.Queue, dryRun, done.Matched, done.Taken, done.Remaining})
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

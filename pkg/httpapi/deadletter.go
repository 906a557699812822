package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Letters has the verbs for dead letters and single messages.
type Letters interface {
	List(ctx context.Context, f deadletter.Filter, after deadletter.ListKey, limit, offset int64) ([]deadletter.Letter, int64, error)
	Redrive(ctx context.Context, f deadletter.Filter, rate int64, dryRun bool) (deadletter.Result, error)
	Purge(ctx context.Context, f deadletter.Filter, dryRun bool) (deadletter.Result, error)
	Message(ctx context.Context, partition queue.ID, transactionID string) (deadletter.Message, error)
	Retry(ctx context.Context, partition queue.ID, transactionID string, group *string) (int64, error)
	Delete(ctx context.Context, partition queue.ID, transactionID string) (existed bool, err error)
}

// maxRate bounds the rate of a redrive, in messages per second.
const maxRate = 100_000

type letterJSON struct {
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

type lettersJSON struct {
	Messages   []letterJSON `json:"messages"`
	Total      int64        `json:"total"`
	Pagination nextPageJSON `json:"pagination"`
}

// listLetters serves GET /api/v1/dlq (section 7.1).
func (s *Server) listLetters(c echo.Context) error {
	filter, err := filterParams(c)
	if err != nil {
		return err
	}
	p, err := pageOf(c, 100)
	if err != nil {
		return err
	}
	after := deadletter.ListKey{FailedAt: p.at}
	if p.id != "" {
		if after.ID, err = strconv.ParseInt(p.id, 10, 64); err != nil {
			return errCursor(c.QueryParam("cursor"))
		}
	}
	letters, total, err := s.deps.Letters.List(c.Request().Context(), filter, after, int64(p.limit), int64(p.offset))
	if err != nil {
		return err
	}
	out := lettersJSON{Messages: []letterJSON{}, Total: total, Pagination: nextPageJSON{pageJSON: pageJSON{p.limit, p.offset}}}
	for i := range letters {
		l := &letters[i]
		one := letterJSON{
			PartitionID: l.PartitionID.String(), Queue: l.Queue, Partition: l.Partition, Group: l.Group,
			Error: l.Error, RetryCount: l.Failures, Data: payloadOrNull(l.Payload), DataError: l.PayloadError,
			ProducerSub: textOrNull(l.ProducerSub), CreatedAt: millisOrNull(l.CreatedAt), FailedAt: formatMillis(l.FailedAt),
		}
		if !l.MessageID.IsZero() {
			one.ID, one.TransactionID = textOrNull(l.MessageID.String()), &l.TransactionID
		}
		out.Messages = append(out.Messages, one)
		out.Pagination = p.told(len(letters), l.FailedAt, strconv.FormatInt(l.ID, 10))
	}
	return answerValue(c, http.StatusOK, out)
}

// filterParams reads the filter of dead letters out of the query.
func filterParams(c echo.Context) (f deadletter.Filter, err error) {
	for _, name := range []struct {
		field string
		into  **string
	}{{"queue", &f.Queue}, {"consumerGroup", &f.Group}, {"partition", &f.Partition}} {
		if *name.into, err = nameQuery(c, name.field); err != nil {
			return f, err
		}
	}
	if id := c.QueryParam("transactionId"); id != "" {
		if !validText(id) || withoutNUL(id) != id {
			return f, queue.Invalidf("transactionId is not UTF-8 without NUL")
		}
		f.TransactionID = &id
	}
	if f.From, err = instantQuery(c, "from"); err != nil {
		return f, err
	}
	if f.To, err = instantQuery(c, "to"); err != nil {
		return f, err
	}
	return f, inOrder(f)
}

// inOrder refuses a filter that nothing can match.
func inOrder(f deadletter.Filter) error {
	if !f.From.IsZero() && !f.To.IsZero() && f.To.Before(f.From) {
		return queue.Invalidf("to is before from: exchange them")
	}
	return nil
}

// redriveRequest is the body of a redrive as it is being read.
type redriveRequest struct {
	deadletter.Filter
	all, dryRun bool
	rate        int64
}

func (r *redriveRequest) member(name string, value jsontext.Value) error {
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
		if value.Kind() != 't' && value.Kind() != 'f' {
			return queue.Invalidf("%s must be true or false, not %s", name, clip(string(value)))
		}
		*into = value.Kind() == 't'
		return nil
	}
	var err error
	switch name {
	case "from", "to":
		at, ok := text(value)
		if !ok || at == "" {
			return queue.Invalidf("%s must be an instant as a string, not %s", name, clip(string(value)))
		}
		into := &r.From
		if name == "to" {
			into = &r.To
		}
		*into, err = instantOf(name, at)
	case "rate":
		r.rate, err = wholeNumber("rate", value)
		if err == nil && (r.rate < 1 || r.rate > maxRate) {
			err = queue.Invalidf("rate is %d: it must be between 1 and %d messages per second", r.rate, maxRate)
		}
	default: // taken for absent, a misspelled one would redrive more
		err = queue.Invalidf("%s is no field of a redrive: use queue, consumerGroup, partition, transactionId, from, to, all, rate and dryRun",
			clip(fmt.Sprintf("%q", name)))
	}
	return err
}

// nameMember reads a name out of a body.
func nameMember(field string, value jsontext.Value, into **string) error {
	name, ok := text(value)
	if !ok {
		return queue.Invalidf("%s must be a string, not %s", field, clip(string(value)))
	}
	*into = &name
	if field == "transactionId" {
		if withoutNUL(name) != name {
			return queue.Invalidf("transactionId contains a NUL character: remove it")
		}
		return nil
	}
	return checkName(field, name)
}

// redrive serves POST /api/v1/dlq/redrive, which is ours: dead letters of a queue
// and group are delivered to that group again.
func (s *Server) redrive(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	var r redriveRequest
	if err := object(body, r.member); err != nil {
		return err
	}
	switch {
	case r.Queue == nil:
		return queue.Invalidf("queue is required")
	case r.Group == nil:
		return queue.Invalidf("consumerGroup is required: what is redriven goes to one group; the reader without one is %s", queue.NoGroup)
	case !r.all && r.Partition == nil && r.TransactionID == nil && r.From.IsZero() && r.To.IsZero():
		return queue.Invalidf("say which: transactionId, partition, from, to, or all: true for every dead letter of the queue and consumerGroup")
	}
	if err := inOrder(r.Filter); err != nil {
		return err
	}
	done, err := s.deps.Letters.Redrive(c.Request().Context(), r.Filter, r.rate, r.dryRun)
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, struct {
		Success   bool   `json:"success"`
		Queue     string `json:"queue"`
		Group     string `json:"consumerGroup"`
		DryRun    bool   `json:"dryRun"`
		Matched   int64  `json:"matched"`
		Redriven  int64  `json:"redriven"`
		Skipped   int64  `json:"skipped"`
		Remaining int64  `json:"remaining"`
	}{true, *r.Queue, *r.Group, r.dryRun, done.Matched, done.Taken, done.Skipped, done.Remaining})
}

// purgeLetters serves DELETE /api/v1/dlq, which is ours.
func (s *Server) purgeLetters(c echo.Context) error {
	filter, err := filterParams(c)
	if err != nil {
		return err
	}
	if filter.Queue == nil {
		return queue.Invalidf("queue is required: name the queue whose dead letters are to be deleted")
	}
	dryRun, err := purgeFlag(c)
	if err != nil {
		return err
	}
	done, err := s.deps.Letters.Purge(c.Request().Context(), filter, dryRun)
	if err != nil {
		return err
	}
	return answerValue(c, http.StatusOK, struct {
		Success   bool   `json:"success"`
		Queue     string `json:"queue"`
		DryRun    bool   `json:"dryRun"`
		Matched   int64  `json:"matched"`
		Purged    int64  `json:"purged"`
		Remaining int64  `json:"remaining"`
	}{true, *filter.Queue, dryRun, done.Matched, done.Taken, done.Remaining})
}

// purgeFlag reads dryRun. What is purged does not come back, so a parameter that
// is misspelled is refused here: taken for absent, it would purge more.
func purgeFlag(c echo.Context) (dryRun bool, err error) {
	for name := range c.QueryParams() {
		switch name {
		case "queue", "consumerGroup", "partition", "transactionId", "from", "to", "dryRun":
		default:
			return false, queue.Invalidf("%s is no parameter of a purge: use queue, consumerGroup, partition, transactionId, from, to and dryRun",
				clip(fmt.Sprintf("%q", name)))
		}
	}
	switch text := c.QueryParam("dryRun"); text {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	default:
		return false, queue.Invalidf("dryRun is %s: it must be true or false", clip(fmt.Sprintf("%q", text)))
	}
}

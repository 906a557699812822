package data

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// itemPlace says in which part of a request an item is.
type itemPlace int

const (
	inPush itemPlace = iota
	// inTransaction is an item of a transaction. There null counts as not sent, and data is another name of payload.
	inTransaction
	// inOperation is an operation of a transaction that is an item too, so it also has the members of an operation.
	inOperation
)

// itemReader reads one item of a push or of a transaction.
type itemReader struct {
	queue.PushItem
	// path is the text before the name of a field in an error, such as "items[0].".
	path                            string
	place                           itemPlace
	hasQueue, sentQueue, hasPayload bool
	// unknown has the first unknown members.
	unknown              []unknownMember
	bySeconds, byInstant bool
}

// readItem reads and checks the item in raw. path names the item in errors.
func readItem(path string, raw jsontext.Value, place itemPlace) (r itemReader, err error) {
	r = itemReader{
		PushItem: queue.PushItem{Partition: queue.DefaultPartition, Payload: json.RawMessage("null")},
		path:     path + ".", place: place,
	}
	isObject, err := wire.Members(raw, r.member)
	switch {
	case err != nil:
		return r, err
	case !isObject:
		return r, queue.Invalidf("%s must be an object", path)
	case !r.sentQueue:
		return r, r.missingQueue()
	case !r.hasQueue:
		return r, r.notString("queue")
	}
	if r.TraceID.IsZero() {
		r.TraceID = r.Headers.TraceID()
	}
	return r, r.check()
}

func (r *itemReader) member(name string, value jsontext.Value) (err error) {
	if r.place != inPush && value.Kind() == 'n' && name != "queue" {
		return nil
	}
	switch name {
	case "queue":
		r.sentQueue = true
		r.Queue, r.hasQueue = wire.Text(value)
	case "partition":
		r.Partition, err = r.text(name, value)
	case "tenant":
		r.Tenant, err = r.text(name, value)
	case "transactionId":
		r.TransactionID, err = r.text(name, value)
	case "traceId":
		r.TraceID, err = r.traceID(value)
	case "headers":
		if value.Kind() != 'n' {
			r.Headers, err = queue.ParseHeaders(r.path+name, value)
		}
	case "delaySeconds":
		r.Delay, err = r.delay(value)
		r.bySeconds = value.Kind() != 'n'
	case "visibleAt":
		r.VisibleAt, err = r.instant(value)
		r.byInstant = value.Kind() != 'n'
	case "payload":
		r.Payload, r.hasPayload = json.RawMessage(value.Clone()), true
	case "data":
		if r.place == inPush {
			r.unknownMember(name)
		} else if !r.hasPayload {
			r.Payload = json.RawMessage(value.Clone())
		}
	case "type", "items":
		if r.place != inOperation {
			r.unknownMember(name)
		}
	default:
		r.unknownMember(name)
	}
	if err == nil && r.bySeconds && r.byInstant {
		err = queue.Invalidf("%sdelaySeconds and visibleAt are both set: send one of them", r.path)
	}
	return err
}

func (r *itemReader) text(name string, value jsontext.Value) (string, error) {
	text, ok := wire.Text(value)
	if !ok {
		return "", r.notString(name)
	}
	return text, nil
}

// traceID reads the trace id. An empty text means that the item has no trace id.
func (r *itemReader) traceID(value jsontext.Value) (queue.ID, error) {
	text, err := r.text("traceId", value)
	if err != nil || text == "" {
		return queue.ID{}, err
	}
	id, err := queue.ParseID(text)
	if err != nil {
		return id, queue.Invalidf("%straceId: %v", r.path, err)
	}
	return id, nil
}

// notString returns the error for a field that must be a string.
func (r *itemReader) notString(field string) error {
	return queue.Invalidf("%s%s must be a string", r.path, field)
}

func (r *itemReader) check() error {
	for _, name := range [...][2]string{{"queue", r.Queue}, {"partition", r.Partition}, {"tenant", r.Tenant}} {
		if err := wire.CheckName(r.path+name[0], name[1]); err != nil {
			return err
		}
	}
	if n := utf8.RuneCountInString(r.TransactionID); n > queue.MaxTransactionIDRunes {
		return queue.Invalidf("%stransactionId is %d characters long: at most %d are allowed", r.path, n, queue.MaxTransactionIDRunes)
	}
	if strings.ContainsRune(r.TransactionID, 0) {
		return queue.Invalidf("%stransactionId contains a NUL character: remove it", r.path)
	}
	return nil
}

// delay reads delaySeconds, the time from the push until the message becomes visible. null counts as not sent.
func (r *itemReader) delay(value jsontext.Value) (time.Duration, error) {
	if value.Kind() == 'n' {
		return 0, nil
	}
	return wire.Delay(r.path+"delaySeconds", value)
}

// instant reads visibleAt, the instant at which the message becomes visible. null counts as not sent.
func (r *itemReader) instant(value jsontext.Value) (time.Time, error) {
	if value.Kind() == 'n' {
		return time.Time{}, nil
	}
	return wire.VisibleAt(r.path+"visibleAt", value)
}

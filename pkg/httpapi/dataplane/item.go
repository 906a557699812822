package dataplane

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// itemReader reads one item of a push or of a transaction.
type itemReader struct {
	queue.PushItem
	// path precedes the name of a field in an error: "items[0].".
	path string
	// inTransaction changes three rules: errors begin with the path, null counts
	// as not sent, and data is another name of payload.
	inTransaction        bool
	hasQueue, hasPayload bool
	bySeconds, byInstant bool
}

// parseItem reads and checks the item in raw. path names the item in errors.
func parseItem(path string, raw jsontext.Value, inTransaction bool) (queue.PushItem, error) {
	r := itemReader{
		PushItem: queue.PushItem{Partition: queue.DefaultPartition, Payload: json.RawMessage("null")},
		path:     path + ".", inTransaction: inTransaction,
	}
	isObject, err := wire.Members(raw, r.member)
	switch {
	case err != nil:
		return r.PushItem, err
	case !isObject:
		return r.PushItem, queue.Invalidf("%s must be an object", path)
	case !r.hasQueue:
		return r.PushItem, r.notString("queue")
	}
	return r.PushItem, r.check()
}

func (r *itemReader) member(name string, value jsontext.Value) error {
	if r.inTransaction && value.Kind() == 'n' && name != "queue" {
		return nil
	}
	switch name {
	case "queue":
		r.Queue, r.hasQueue = wire.Text(value)
	case "partition":
		return r.text(name, value, &r.Partition)
	case "transactionId":
		return r.text(name, value, &r.TransactionID)
	case "traceId":
		return r.traceID(value)
	case "delaySeconds":
		return r.delaySeconds(value)
	case "visibleAt":
		return r.visibleAt(value)
	case "payload":
		r.Payload, r.hasPayload = json.RawMessage(value.Clone()), true
	case "data":
		if r.inTransaction && !r.hasPayload {
			r.Payload = json.RawMessage(value.Clone())
		}
	}
	return nil
}

func (r *itemReader) text(name string, value jsontext.Value, into *string) error {
	text, ok := wire.Text(value)
	if !ok {
		return r.notString(name)
	}
	*into = text
	return nil
}

// traceID reads the trace id; an empty text means that the item has none.
func (r *itemReader) traceID(value jsontext.Value) (err error) {
	var text string
	if err := r.text("traceId", value, &text); err != nil {
		return err
	}
	if r.TraceID = (queue.ID{}); text == "" {
		return nil
	}
	if r.TraceID, err = queue.ParseID(text); err != nil {
		return queue.Invalidf("%straceId: %v", r.path, err)
	}
	return nil
}

// notString returns the error for a field that must be a string. For a push,
// docs/compatibility.md fixes the text.
func (r *itemReader) notString(field string) error {
	if r.inTransaction {
		return queue.Invalidf("%s%s must be a string", r.path, field)
	}
	return queue.Invalidf("%s must be a string", strings.ToUpper(field[:1])+field[1:])
}

func (r *itemReader) check() error {
	if err := wire.CheckName(r.path+"queue", r.Queue); err != nil {
		return err
	}
	if err := wire.CheckName(r.path+"partition", r.Partition); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(r.TransactionID); n > queue.MaxTransactionIDRunes {
		return queue.Invalidf("%stransactionId is %d characters long: at most %d are allowed", r.path, n, queue.MaxTransactionIDRunes)
	}
	if strings.ContainsRune(r.TransactionID, 0) {
		return queue.Invalidf("%stransactionId contains a NUL character: remove it", r.path)
	}
	return nil
}

// delaySeconds reads how long after its push the message becomes visible. null
// counts as not sent.
func (r *itemReader) delaySeconds(value jsontext.Value) error {
	if value.Kind() == 'n' {
		r.bySeconds, r.Delay = false, 0
		return nil
	}
	seconds, err := math.NaN(), error(nil)
	if value.Kind() == '0' {
		seconds, err = strconv.ParseFloat(string(value), 64)
	}
	if limit := queue.MaxPushDelay.Seconds(); err != nil || !(seconds >= 0 && seconds <= limit) {
		return queue.Invalidf("%sdelaySeconds must be a number between 0 and %.0f (a year), not %s", r.path, limit, wire.Clip(string(value)))
	}
	r.bySeconds, r.Delay = true, time.Duration(seconds*float64(time.Second))
	return r.onlyOneDelay()
}

// visibleAt reads the instant at which the message becomes visible. null counts
// as not sent.
func (r *itemReader) visibleAt(value jsontext.Value) error {
	if value.Kind() == 'n' {
		r.byInstant, r.VisibleAt = false, time.Time{}
		return nil
	}
	text, _ := wire.Text(value)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return queue.Invalidf("%svisibleAt must be an instant as in RFC 3339, such as 2026-05-16T08:41:27.5Z, not %s", r.path, wire.Clip(string(value)))
	}
	if at.After(time.Now().Add(queue.MaxPushDelay)) {
		return queue.Invalidf("%svisibleAt is %s: it must be at most %.0f seconds (a year) from now", r.path, wire.Clip(text), queue.MaxPushDelay.Seconds())
	}
	r.byInstant, r.VisibleAt = true, at
	return r.onlyOneDelay()
}

func (r *itemReader) onlyOneDelay() error {
	if r.bySeconds && r.byInstant {
		return queue.Invalidf("%sdelaySeconds and visibleAt say the same thing: send one of them", r.path)
	}
	return nil
}

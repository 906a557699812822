package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// push serves POST /api/v1/push (wire contract, section 1).
func (s *Server) push(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	items, err := parsePush(body)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return answer(c, http.StatusCreated, []byte("[]"))
	}
	results, err := s.deps.Verbs.Push(c.Request().Context(), items)
	if err != nil {
		return err
	}
	s.deps.Metrics.stored(len(results))
	out := make([]byte, 0, 256*len(results))
	out = append(out, '[')
	for i := range results {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendPushResult(out, i, &items[i], &results[i])
	}
	return answer(c, http.StatusCreated, append(out, ']'))
}

// parsePush reads and checks a push body. It looks at everything before
// anything is stored.
func parsePush(body []byte) ([]queue.PushItem, error) {
	var items []queue.PushItem
	var isArray bool
	err := object(body, func(name string, value jsontext.Value) error {
		if name != "items" {
			return nil
		}
		items = nil
		var err error
		isArray, err = elements(value, func(element jsontext.Value) error {
			item, err := itemReader{path: itemPath(len(items))}.read(element)
			items = append(items, item)
			return err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if !isArray {
		return nil, queue.Invalidf("items array is required")
	}
	return items, nil
}

// itemReader reads one item of a push, or of a transaction's.
type itemReader struct {
	// path is what precedes the name of a field in an error: "items[0].".
	path string
	// inTransaction: errors begin with the path, null is as good as nothing, and
	// data is another name of payload.
	inTransaction bool
}

func (r itemReader) read(raw jsontext.Value) (queue.PushItem, error) {
	item := queue.PushItem{Partition: queue.DefaultPartition, Payload: json.RawMessage("null")}
	var hasQueue, hasPayload bool
	when := delay{path: r.path}
	isObject, err := fields(raw, func(name string, value jsontext.Value) error {
		if r.inTransaction && value.Kind() == 'n' && name != "queue" {
			return nil
		}
		var ok bool
		switch name {
		case "queue":
			item.Queue, hasQueue = text(value)
		case "partition":
			if item.Partition, ok = text(value); !ok {
				return r.noString(name)
			}
		case "transactionId":
			if item.TransactionID, ok = text(value); !ok {
				return r.noString(name)
			}
		case "traceId":
			id, ok := text(value)
			if !ok {
				return r.noString(name)
			}
			if item.TraceID = (queue.ID{}); id != "" {
				parsed, err := queue.ParseID(id)
				if err != nil {
					return queue.Invalidf("%straceId: %v", r.path, err)
				}
				item.TraceID = parsed
			}
		case "delaySeconds":
			return when.seconds(&item, value)
		case "visibleAt":
			return when.instant(&item, value)
		case "payload":
			item.Payload, hasPayload = json.RawMessage(value.Clone()), true
		case "data":
			if r.inTransaction && !hasPayload {
				item.Payload = json.RawMessage(value.Clone())
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return item, err
	case !isObject:
		return item, queue.Invalidf("%s must be an object", strings.TrimSuffix(r.path, "."))
	case !hasQueue:
		return item, r.noString("queue")
	}
	return item, checkPushItem(r.path, &item)
}

// noString says that a field must be a string: of a push in the contract's words.
func (r itemReader) noString(field string) error {
	if r.inTransaction {
		return queue.Invalidf("%s%s must be a string", r.path, field)
	}
	return queue.Invalidf("%s must be a string", strings.ToUpper(field[:1])+field[1:])
}

func itemPath(index int) string { return "items[" + strconv.Itoa(index) + "]." }

func checkPushItem(path string, item *queue.PushItem) error {
	if err := checkName(path+"queue", item.Queue); err != nil {
		return err
	}
	if err := checkName(path+"partition", item.Partition); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(item.TransactionID); n > queue.MaxTransactionIDRunes {
		return queue.Invalidf("%stransactionId is %d characters long: at most %d are allowed", path, n, queue.MaxTransactionIDRunes)
	}
	if strings.ContainsRune(item.TransactionID, 0) {
		return queue.Invalidf("%stransactionId contains a NUL character: remove it", path)
	}
	return nil
}

func appendPushResult(b []byte, index int, item *queue.PushItem, r *queue.PushResult) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	if r.Duplicate {
		b = append(b, `,"status":"duplicate","transaction_id":`...)
	} else {
		b = append(b, `,"status":"queued","transaction_id":`...)
	}
	b = appendString(b, r.TransactionID)
	b = append(b, `,"message_id":`...)
	b = appendID(b, r.MessageID)
	if !r.Duplicate {
		b = append(b, `,"partition_id":`...)
		b = appendID(b, r.PartitionID)
		b = append(b, `,"trace_id":`...)
		b = appendID(b, item.TraceID)
	}
	b = append(b, `,"queueName":`...)
	b = appendString(b, item.Queue)
	return append(b, '}')
}

// appendID appends an id as a JSON string, or null when there is none.
func appendID(b []byte, id queue.ID) []byte {
	if id.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, id.String()...)
	return append(b, '"')
}

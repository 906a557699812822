package wire

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// statuses maps each error code to its HTTP status.
var statuses = map[queue.Code]int{
	queue.CodeInvalid:         http.StatusBadRequest,
	queue.CodeUnauthenticated: http.StatusUnauthorized,
	queue.CodeForbidden:       http.StatusForbidden,
	queue.CodeTooLarge:        http.StatusRequestEntityTooLarge,
	queue.CodeTooSlow:         http.StatusRequestTimeout,
	queue.CodeEncoded:         http.StatusUnsupportedMediaType,
	queue.CodeNotFound:        http.StatusNotFound,
	queue.CodeLeaseGone:       http.StatusConflict,
	queue.CodeConflict:        http.StatusConflict,
	queue.CodeQueueFull:       http.StatusTooManyRequests,
	queue.CodeUnavailable:     http.StatusServiceUnavailable,
	queue.CodeOverloaded:      http.StatusServiceUnavailable,
	queue.CodeUndeliverable:   http.StatusInternalServerError,
	queue.CodeNotServed:       http.StatusNotImplemented,
	queue.CodeInternal:        http.StatusInternalServerError,
}

// StatusOf returns the HTTP status for an error code.
func StatusOf(code queue.Code) int { return statuses[code] }

// RetryAfter returns the seconds after which the client of a failed request may try again.
func RetryAfter(err *queue.Error) int { return int(math.Ceil(err.RetryAfter.Seconds())) }

// Answer sends a JSON body.
func Answer(c echo.Context, status int, body []byte) error {
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return c.Blob(status, echo.MIMEApplicationJSON, body)
}

// JSON returns a handler that sends the value of answer as JSON, with the status of the Params. The rows that answer reads
// from the database count for http.max_inflight_bytes. The handler sends the JSON while it encodes the value.
func JSON(answer func(p *Params) (any, error)) echo.HandlerFunc {
	return Change(func(p *Params) (any, error) {
		CountReads(p)
		return answer(p)
	})
}

// Change is like JSON, for a route that changes state. The rows that it reads do not count for http.max_inflight_bytes: it may
// read any number of pages, but has only one page in memory, and answers with counts.
func Change(answer func(p *Params) (any, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		p := &Params{Context: c, Status: http.StatusOK}
		IgnoreReads(c)
		value, err := answer(p)
		Memory(c).Trim()
		if err != nil {
			return err
		}
		to := &jsonWriter{c: c, status: p.Status}
		if err := json.MarshalWrite(to, value, encoding); err != nil && to.failed == nil {
			if c.Response().Committed {
				// The past deadline closes the connection before the end of the answer, so the client notices that the answer is incomplete.
				_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Unix(1, 0))
			}
			return fmt.Errorf("encoding the answer to %s: %w", c.Path(), err)
		}
		return to.end()
	}
}

// jsonWriter writes an answer in parts. An answer of one part has a Content-Length.
type jsonWriter struct {
	c      echo.Context
	status int
	part   []byte
	failed error
}

// Write adds b to the part. It sends the part first if b does not fit.
func (w *jsonWriter) Write(b []byte) (int, error) {
	if len(w.part)+len(b) > inflight.FreeAnswer {
		w.send()
	}
	if w.failed == nil && len(b) > inflight.FreeAnswer {
		_, w.failed = w.c.Response().Write(b)
	} else {
		w.part = append(w.part, b...)
	}
	return len(b), w.failed
}

// send writes the part to the client and empties it.
func (w *jsonWriter) send() {
	if r := w.c.Response(); !r.Committed {
		r.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		r.WriteHeader(w.status)
	}
	if w.failed == nil {
		_, w.failed = w.c.Response().Write(w.part)
	}
	w.part = w.part[:0]
}

// end sends the last part.
func (w *jsonWriter) end() error {
	if !w.c.Response().Committed {
		w.c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(w.part)))
	}
	w.send()
	return w.failed
}

// Fields is a JSON object: each name is followed by its value.
type Fields []any

// MarshalJSONTo writes the fields in order.
func (f Fields) MarshalJSONTo(to *jsontext.Encoder) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, nameOrValue := range f {
		var err error
		if text, ok := nameOrValue.(string); ok {
			err = to.WriteToken(jsontext.String(text)) // much faster than MarshalEncode
		} else {
			err = json.MarshalEncode(to, nameOrValue)
		}
		if err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndObject)
}

// writeStored writes stored JSON unchanged. If the JSON is malformed or nested too deep, writeStored writes its text as a JSON
// string. It writes nil as null.
func writeStored(to *jsontext.Encoder, stored stdjson.RawMessage) error {
	if stored == nil {
		return to.WriteToken(jsontext.Null)
	}
	err := to.WriteValue(jsontext.Value(stored))
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		return to.WriteToken(jsontext.String(strings.ToValidUTF8(string(stored), "\uFFFD")))
	}
	return err
}

// encoding has the options for answers. Instants are in UTC with milliseconds, ids are
// strings, and durations are in seconds. A zero instant and a zero id become null.
// Payloads keep their escapes and duplicate names. See writeStored for a RawMessage.
var encoding = json.JoinOptions(
	json.Deterministic(true), jsontext.PreserveRawStrings(true),
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(func(to *jsontext.Encoder, t time.Time) error {
			return to.WriteToken(stringOrNull(FormatMillis(t), t.IsZero()))
		}),
		json.MarshalToFunc(func(to *jsontext.Encoder, id queue.ID) error {
			return to.WriteToken(stringOrNull(id.String(), id.IsZero()))
		}),
		json.MarshalToFunc(func(to *jsontext.Encoder, d time.Duration) error {
			return to.WriteToken(jsontext.Float(d.Seconds()))
		}),
		json.MarshalToFunc(writeStored),
	)),
)

// Line returns a value as a line of JSON, as in the answers of JSON.
func Line(value any) ([]byte, error) {
	line, err := json.Marshal(value, encoding)
	return append(line, '\n'), err
}

func stringOrNull(s string, null bool) jsontext.Token {
	if null {
		return jsontext.Null
	}
	return jsontext.String(s)
}

// AppendString appends the JSON text prefix, and then s as a JSON string.
func AppendString(b []byte, prefix, s string) []byte {
	// The only possible error is invalid UTF-8, which AppendQuote replaces.
	b, _ = jsontext.AppendQuote(append(b, prefix...), s)
	return b
}

// AppendStringOrNull is like AppendString, but appends null for an empty s.
func AppendStringOrNull(b []byte, before, s string) []byte {
	if s == "" {
		return append(append(b, before...), "null"...)
	}
	return AppendString(b, before, s)
}

// AppendID appends the JSON text prefix, and then id as a JSON string. It appends null
// for the zero id.
func AppendID(b []byte, prefix string, id queue.ID) []byte {
	b = append(b, prefix...)
	if id.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, id.String()...)
	return append(b, '"')
}

// AppendInt appends the JSON text prefix, and then n.
func AppendInt(b []byte, prefix string, n int) []byte {
	return strconv.AppendInt(append(b, prefix...), int64(n), 10)
}

// AppendBool appends the JSON text prefix, and then v.
func AppendBool(b []byte, prefix string, v bool) []byte {
	return strconv.AppendBool(append(b, prefix...), v)
}

// Stream returns the handler of a route that writes its answer itself.
func Stream(serve func(*Params) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		IgnoreReads(c)
		return serve(&Params{Context: c, Status: http.StatusOK})
	}
}

package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// statuses is the one table from error code to status.
var statuses = map[queue.Code]int{
	queue.CodeInvalid:     http.StatusBadRequest,
	queue.CodeTooLarge:    http.StatusRequestEntityTooLarge,
	queue.CodeNotFound:    http.StatusNotFound,
	queue.CodeLeaseGone:   http.StatusConflict,
	queue.CodeQueueFull:   http.StatusTooManyRequests,
	queue.CodeUnavailable: http.StatusServiceUnavailable,
	queue.CodeOverloaded:  http.StatusServiceUnavailable,
	queue.CodeInternal:    http.StatusInternalServerError,
}

// StatusOf returns the status of an answer that reports an error with this code.
func StatusOf(code queue.Code) int { return statuses[code] }

// Answer sends a JSON body.
func Answer(c echo.Context, status int, body []byte) error {
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return c.Blob(status, echo.MIMEApplicationJSON, body)
}

// AnswerJSON sends value as JSON.
func AnswerJSON(c echo.Context, status int, value any) error {
	buf := &bytes.Buffer{}
	encoder := json.NewEncoder(buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encoding the answer to %s: %w", c.Path(), err)
	}
	return Answer(c, status, bytes.TrimRight(buf.Bytes(), "\n"))
}

// AppendString appends before, which is JSON, and then s as a JSON string.
func AppendString(b []byte, before, s string) []byte {
	// The only possible error is invalid UTF-8, which AppendQuote replaces.
	b, _ = jsontext.AppendQuote(append(b, before...), s)
	return b
}

// AppendStringOrNull is AppendString with null for an empty s.
func AppendStringOrNull(b []byte, before, s string) []byte {
	if s == "" {
		return append(append(b, before...), "null"...)
	}
	return AppendString(b, before, s)
}

// AppendID appends before, which is JSON, and then id as a JSON string, or null for
// the zero id.
func AppendID(b []byte, before string, id queue.ID) []byte {
	b = append(b, before...)
	if id.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, id.String()...)
	return append(b, '"')
}

// AppendInt appends before, which is JSON, and then n.
func AppendInt(b []byte, before string, n int) []byte {
	return strconv.AppendInt(append(b, before...), int64(n), 10)
}

// AppendBool appends before, which is JSON, and then v.
func AppendBool(b []byte, before string, v bool) []byte {
	return strconv.AppendBool(append(b, before...), v)
}

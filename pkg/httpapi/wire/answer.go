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

// AppendString appends s as a JSON string.
func AppendString(b []byte, s string) []byte {
	// The only possible error is invalid UTF-8, which AppendQuote replaces.
	quoted, _ := jsontext.AppendQuote(b, s)
	return quoted
}

// AppendStringOrNull appends s as a JSON string, or null for an empty s.
func AppendStringOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return AppendString(b, s)
}

// AppendID appends id as a JSON string, or null for the zero id.
func AppendID(b []byte, id queue.ID) []byte {
	if id.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, id.String()...)
	return append(b, '"')
}

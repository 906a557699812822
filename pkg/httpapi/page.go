package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// What one page of a list may hold and pass over at most; more is served as this
// much, and the answer's pagination says so.
const (
	maxPage   = 1000
	maxOffset = 1_000_000
)

// page is which part of a list a request asks for.
type page struct {
	limit, offset int64
	// at and id are where a cursor says to go on; zero: at the beginning.
	at time.Time
	id string
}

// pageJSON tells which part of a list an answer holds.
type pageJSON struct {
	Limit  int64 `json:"limit"`
	Offset int64 `json:"offset"`
	// Next is the cursor of the page that follows; null: this is the last one.
	Next *string `json:"next"`
}

// pageOf reads limit, offset and cursor.
func pageOf(c echo.Context, limit int) (page, error) {
	p := page{
		limit:  int64(between(1, leadingInt(c.QueryParam("limit"), limit), maxPage)),
		offset: int64(between(0, leadingInt(c.QueryParam("offset"), 0), maxOffset)),
	}
	cursor := c.QueryParam("cursor")
	if cursor == "" {
		return p, nil
	}
	micros, id, ok := strings.Cut(cursor, "_")
	n, err := strconv.ParseInt(micros, 10, 64)
	if !ok || err != nil || id == "" || n <= 0 || n > maxMicros {
		return p, errCursor(cursor)
	}
	p.at, p.id = time.UnixMicro(n), id
	return p, nil
}

// maxMicros is the last instant of the year 9999.
const maxMicros = 253402300799999999

func errCursor(cursor string) error {
	return queue.Invalidf("cursor is %q: use what pagination.next of the page before says", clip(cursor))
}

// told says what became of a page of n rows whose last one is at this place.
func (p page) told(n int, at time.Time, id string) pageJSON {
	out := pageJSON{Limit: p.limit, Offset: p.offset}
	if int64(n) == p.limit {
		next := strconv.FormatInt(at.UnixMicro(), 10) + "_" + id
		out.Next = &next
	}
	return out
}

// instantParam reads an instant of the query; absent is the zero time.
func instantParam(c echo.Context, name string) (time.Time, error) {
	return instantOf(name, c.QueryParam(name))
}

func instantOf(name, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	at, ok := parseInstant(value)
	if !ok || at.Year() < 1970 || at.Year() > 9999 {
		return at, queue.Invalidf("%s is %q: it must be an instant since 1970, for example 2026-05-16T08:41:27Z", name, clip(value))
	}
	return at, nil
}

// nameParam reads a name of the query; absent or empty is nil.
func nameParam(c echo.Context, name string) (*string, error) {
	value := c.QueryParam(name)
	if value == "" {
		return nil, nil //nolint:nilnil // no name is a valid answer
	}
	if !validText(value) {
		return nil, queue.Invalidf("%s is not UTF-8", name)
	}
	return &value, checkName(name, value)
}

// messagePath reads the partition and the transaction of a message in a path. A
// partition that is no UUID names no message.
func messagePath(c echo.Context) (partition queue.ID, partitionText, transaction string, err error) {
	if partitionText, err = pathName(c, "partitionId"); err != nil {
		return partition, "", "", err
	}
	// A transaction id has 255 characters at most, which may be more bytes.
	if transaction, err = pathText(c, "transactionId"); err != nil {
		return partition, "", "", err
	}
	if partition, err = queue.ParseID(partitionText); err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: "Message not found"}
	}
	return partition, partitionText, transaction, err
}

// pathText is pathName for what may be longer than a name.
func pathText(c echo.Context, param string) (string, error) {
	text, err := unescaped(c, param)
	switch {
	case err != nil:
		return "", err
	case strings.ContainsRune(text, 0):
		return "", queue.Invalidf("the %s in the path contains a NUL character: remove it", param)
	}
	return text, nil
}

// orNull makes an empty text null.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// millisOrNull makes the zero time null.
func millisOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return orNull(formatMillis(t))
}

// payloadOrNull makes an absent payload null.
func payloadOrNull(payload []byte) json.RawMessage {
	if payload == nil {
		return json.RawMessage("null")
	}
	return payload
}

// answerWith sends what value encodes to.
func answerWith(c echo.Context, status int, value any) error {
	buf := &bytes.Buffer{}
	encoder := json.NewEncoder(buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encoding the answer to %s: %w", c.Path(), err)
	}
	return answer(c, status, bytes.TrimRight(buf.Bytes(), "\n"))
}

// noBody says whether a request came without a body, where one is optional.
func noBody(r *http.Request) bool { return r.ContentLength == 0 }

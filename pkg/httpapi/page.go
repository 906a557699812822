package httpapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// What one list may ask for at most: a larger limit is served as this much, and
// the answer says so in pagination.limit; a larger offset is refused.
const (
	maxLimit  = 1000
	maxOffset = 10_000
)

// pageQuery reads limit and offset. What is unreadable falls back to its default,
// as the contract says.
func pageQuery(c echo.Context, otherwise int) (limit, offset int, err error) {
	limit = between(1, leadingInt(c.QueryParam("limit"), otherwise), maxLimit)
	offset = max(0, leadingInt(c.QueryParam("offset"), 0))
	if offset > maxOffset {
		return 0, 0, queue.Invalidf("offset is %d: at most %d is allowed; page with cursor, the next of an earlier answer, "+
			"or narrow the list", offset, maxOffset)
	}
	return limit, offset, nil
}

// pageJSON tells which part of a list an answer holds.
type pageJSON struct {
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
}

// nextPageJSON is pageJSON for a list that can be gone on with.
type nextPageJSON struct {
	pageJSON
	// Next is the cursor of the page that follows; null: this is the last one.
	Next *string `json:"next"`
}

// page is which part of a list in the order of time a request asks for.
type page struct {
	limit, offset int
	// at and id are where a cursor says to go on; zero: at the beginning.
	at time.Time
	id string
}

// pageOf reads limit, offset and cursor.
func pageOf(c echo.Context, otherwise int) (page, error) {
	limit, offset, err := pageQuery(c, otherwise)
	p := page{limit: limit, offset: offset}
	cursor := c.QueryParam("cursor")
	if cursor == "" || err != nil {
		return p, err
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
func (p page) told(n int, at time.Time, id string) nextPageJSON {
	out := nextPageJSON{pageJSON: pageJSON{p.limit, p.offset}}
	if n == p.limit {
		next := strconv.FormatInt(at.UnixMicro(), 10) + "_" + id
		out.Next = &next
	}
	return out
}

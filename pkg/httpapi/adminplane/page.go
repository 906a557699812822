package adminplane

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Limits of one list. A larger limit counts as maxLimit, which the answer
// reports in pagination.limit. A larger offset is refused.
const (
	maxLimit  = 1000
	maxOffset = 10_000
)

// readLimits reads limit and offset. An unreadable value counts as its default.
func readLimits(p *wire.Params, defaultLimit int) (limit, offset int) {
	limit = wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), defaultLimit), maxLimit)
	offset = max(0, wire.LeadingInt(p.QueryParam("offset"), 0))
	if offset > maxOffset {
		p.Check(queue.Invalidf("offset is %d: at most %d is allowed; page with cursor, the next of an earlier answer, "+
			"or narrow the list", offset, maxOffset))
	}
	return limit, offset
}

// pageJSON describes the part of a list that an answer holds.
type pageJSON struct {
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
}

// nextPageJSON is pageJSON for a list with a cursor.
type nextPageJSON struct {
	pageJSON
	// Next is the cursor of the next page; null on the last page.
	Next *string `json:"next"`
}

// page is the part of a time-ordered list that a request selects.
type page struct {
	limit, offset int
	// at and id identify the last row of the page before; zero on the first page.
	at time.Time
	id string
}

// readPage reads limit, offset and cursor.
func readPage(p *wire.Params, defaultLimit int) (out page) {
	out.limit, out.offset = readLimits(p, defaultLimit)
	cursor := p.QueryParam("cursor")
	if cursor == "" {
		return out
	}
	micros, id, _ := strings.Cut(cursor, "_")
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || id == "" || n <= 0 || n > maxMicros {
		p.Check(errCursor(cursor))
		return out
	}
	out.at, out.id = time.UnixMicro(n), id
	return out
}

// maxMicros is the last instant of the year 9999.
const maxMicros = 253402300799999999

func errCursor(cursor string) error {
	return queue.Invalidf("cursor is %q: use what pagination.next of the page before says", wire.Clip(cursor))
}

func (p page) json() pageJSON { return pageJSON{p.limit, p.offset} }

// next describes a page of n rows. at and id identify its last row.
func (p page) next(n int, at time.Time, id string) nextPageJSON {
	out := nextPageJSON{pageJSON: p.json()}
	if n == p.limit {
		out.Next = orNull(strconv.FormatInt(at.UnixMicro(), 10) + "_" + id)
	}
	return out
}

// each converts every row. The result is never nil, so that JSON has [] and not
// null.
func each[Row, JSON any](rows []Row, convert func(*Row) JSON) []JSON {
	list := make([]JSON, len(rows))
	for i := range rows {
		list[i] = convert(&rows[i])
	}
	return list
}

// orNull returns nil, which is null in JSON, for the zero value.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// millisOrNull returns nil for the zero time.
func millisOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return orNull(wire.FormatMillis(t))
}

// idOrNull returns nil for the zero id.
func idOrNull(id queue.ID) *string {
	if id.IsZero() {
		return nil
	}
	return orNull(id.String())
}

// payloadOrNull returns null for a payload that is not there.
func payloadOrNull(payload []byte) json.RawMessage {
	if payload == nil {
		return json.RawMessage("null")
	}
	return payload
}

package adminplane

import (
	"fmt"
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

// pageJSON describes the part of a list that a request selects.
type pageJSON struct {
	Limit  int64 `json:"limit"`
	Offset int64 `json:"offset"`
}

// readPage reads limit and offset. An unreadable value counts as its default.
func readPage(p *wire.Params, defaultLimit int) pageJSON {
	limit := wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), defaultLimit), maxLimit)
	offset := max(0, wire.LeadingInt(p.QueryParam("offset"), 0))
	if offset > maxOffset {
		p.Check(queue.Invalidf("offset is %d: at most %d is allowed; page with cursor, the next of an earlier answer, "+
			"or narrow the list", offset, maxOffset))
	}
	return pageJSON{int64(limit), int64(offset)}
}

// cursor returns the cursor of the page after the row with this instant and id.
func cursor(at time.Time, id any) string { return fmt.Sprintf("%d_%v", at.UnixMicro(), id) }

// readCursor returns the instant and the id of the last row of the page before; zero
// on the first page.
func readCursor[ID any](p *wire.Params, parse func(string) (ID, error)) (at time.Time, id ID) {
	text := p.QueryParam("cursor")
	if text == "" {
		return at, id
	}
	before, after, _ := strings.Cut(text, "_")
	micros, err := strconv.ParseInt(before, 10, 64)
	id, badID := parse(after)
	if err != nil || badID != nil || micros <= 0 || micros > maxMicros {
		p.Check(queue.Invalidf("cursor is %q: use what pagination.next of the page before says", wire.Clip(text)))
	}
	return time.UnixMicro(micros), id
}

// maxMicros is the last instant of the year 9999.
const maxMicros = 253402300799999999

// nextPage describes a page with these rows. cursorAfter returns the cursor after a
// row. next is null on the last page.
func nextPage[Row any](page pageJSON, rows []Row, cursorAfter func(last *Row) string) wire.Fields {
	var next *string
	if n := len(rows); n > 0 && int64(n) == page.Limit {
		next = orNull(cursorAfter(&rows[n-1]))
	}
	return wire.Fields{"limit", page.Limit, "offset", page.Offset, "next", next}
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

// orEmpty returns the text, or "" for nil.
func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// orNull returns nil, which is null in JSON, for the zero value.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

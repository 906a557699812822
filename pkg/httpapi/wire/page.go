package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The limits of a list. A limit above MaxLimit counts as MaxLimit, and the answer
// has MaxLimit in pagination.limit. An offset above maxOffset is refused.
const (
	MaxLimit  = 1000
	maxOffset = 10_000
)

// Limit reads the limit of a list without an offset.
func Limit(p *Params) int64 { return ReadPage(p, 100).Limit }

// ReadPage reads limit and offset. A value that is not a number counts as its default.
func ReadPage(p *Params, defaultLimit int) api.OffsetPage {
	limit := Clamp(1, LeadingInt(p.QueryParam("limit"), defaultLimit), MaxLimit)
	offset := max(0, LeadingInt(p.QueryParam("offset"), 0))
	if offset > maxOffset {
		p.Check(queue.Invalidf("offset is %d: at most %d is allowed; send pagination.next of an earlier answer as cursor, "+
			"or select fewer rows", offset, maxOffset))
	}
	return api.OffsetPage{Limit: int64(limit), Offset: int64(offset)}
}

// Cut sets the limit of the page to rows if cut is true: the page has fewer rows than its limit because they are large. So a
// client that continues with the limit as offset, or with next, gets all rows.
func Cut(page api.OffsetPage, rows int, cut bool) api.OffsetPage {
	if cut {
		page.Limit = int64(rows)
	}
	return page
}

// Cursor returns the cursor of the page that begins after the row with an instant and an id.
func Cursor(at time.Time, id any) string { return fmt.Sprintf("%d_%v", at.UnixMicro(), id) }

// ReadCursor returns the instant and the id of the last row of the previous page. Both are
// zero if the request has no cursor.
func ReadCursor[ID any](p *Params, parse func(string) (ID, error)) (at time.Time, id ID) {
	text := p.QueryParam("cursor")
	if text == "" {
		return at, id
	}
	before, after, _ := strings.Cut(text, "_")
	micros, err := strconv.ParseInt(before, 10, 64)
	id, badID := parse(after)
	if err != nil || badID != nil || micros <= 0 || micros > MaxMicros {
		p.Check(queue.Invalidf("cursor is %q: use pagination.next of the previous page", Clip(text)))
	}
	return time.UnixMicro(micros), id
}

// MaxMicros is the last instant of the year 9999 in microseconds since 1970.
const MaxMicros = 253402300799999999

// NextPage returns the pagination of a page with these rows. cursorAfter returns the
// cursor after a row. If the page is not full, it is the last page, and next is null.
func NextPage[Row any](page api.OffsetPage, rows []Row, cursorAfter func(last *Row) string) api.CursorPage {
	var next *string
	if n := len(rows); n > 0 && int64(n) == page.Limit {
		next = OrNull(cursorAfter(&rows[n-1]))
	}
	return api.CursorPage{OffsetPage: page, Next: next}
}

// Each converts every row. The result is never nil, so its JSON is [] and not null.
func Each[Row, JSON any](rows []Row, convert func(*Row) JSON) []JSON {
	list := make([]JSON, len(rows))
	for i := range rows {
		list[i] = convert(&rows[i])
	}
	return list
}

// OrNull returns nil, which is null in JSON, for the zero value.
func OrNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// IDOrNull returns the text of an id, or nil for the zero id.
func IDOrNull(id queue.ID) *string {
	if id.IsZero() {
		return nil
	}
	text := id.String()
	return &text
}

// CheckSpan returns an error if a span ends before it begins.
func CheckSpan(from, to time.Time) error {
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return queue.Invalidf("to is before from: swap them")
	}
	return nil
}

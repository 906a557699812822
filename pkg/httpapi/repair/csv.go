package repair

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/client/api/sheet"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// csvType is the media type of RFC 4180.
const csvType = "text/csv"

// NextHeader is the header with the cursor of the next page of a list as CSV. The last page does not have it.
const NextHeader = "Belfry-Next-Cursor"

// OrCSV returns a handler that sends the list of answer as CSV if the request asks for it with format=csv or with the
// header Accept. Otherwise it sends JSON.
func OrCSV(answer func(p *wire.Params) (any, error)) echo.HandlerFunc {
	asJSON := wire.JSON(answer)
	return func(c echo.Context) error {
		format, accept, _ := strings.Cut(cmp.Or(c.QueryParam("format"), "accept "+c.Request().Header.Get(echo.HeaderAccept)), " ")
		switch {
		case format == "csv" || format == "accept" && acceptsCSV(accept):
			return sendCSV(c, answer)
		case format == "accept" || format == "json":
			return asJSON(c)
		}
		return queue.Invalidf("format is %s: use json or csv", wire.Clip(strconv.Quote(format)))
	}
}

// acceptsCSV reports whether the first media type of an Accept header is text/csv.
func acceptsCSV(accept string) bool {
	first, _, _ := strings.Cut(accept, ",")
	kind, _, _ := strings.Cut(first, ";")
	return strings.EqualFold(strings.TrimSpace(kind), csvType)
}

// sendCSV sends a page as CSV: a line with the names of the columns,
// and a line for each row.
func sendCSV(c echo.Context, answer func(p *wire.Params) (any, error)) error {
	wire.CountReads(c)
	value, err := answer(&wire.Params{Context: c, Status: http.StatusOK})
	if err != nil {
		return err
	}
	if next := nextOf(value); next != nil {
		c.Response().Header().Set(NextHeader, *next)
	}
	c.Response().Header().Set(echo.HeaderContentType, csvType+"; charset=utf-8; header=present")
	c.Response().WriteHeader(http.StatusOK)
	_ = sheet.Write(c.Response(), value, true) // a client that has gone needs no answer
	return nil
}

// nextOf returns the cursor of the next page of a list.
func nextOf(value any) *string {
	switch list := value.(type) {
	case api.DeadLetters:
		return list.Pagination.Next
	case api.Messages:
		return list.Pagination.Next
	}
	return nil
}

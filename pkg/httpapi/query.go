package httpapi

import (
	"fmt"
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

// textQuery reads a parameter that is compared with a name; an absent one is "".
func textQuery(c echo.Context, param string) (string, error) {
	value := c.QueryParam(param)
	if !validText(value) {
		return "", queue.Invalidf("%s is not UTF-8", param)
	}
	return value, checkName(param, value)
}

// nameQuery is textQuery for a name that may be empty: absent is nil. Clients
// send an empty parameter for one that is not set, so that is absent too.
func nameQuery(c echo.Context, param string) (*string, error) {
	value, err := textQuery(c, param)
	if err != nil || value == "" {
		return nil, err
	}
	return &value, nil
}

// instantQuery reads an instant; an absent one is the zero time.
func instantQuery(c echo.Context, param string) (time.Time, error) {
	value := c.QueryParam(param)
	if value == "" {
		return time.Time{}, nil
	}
	at, ok := parseInstant(value)
	if !ok || at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}, queue.Invalidf("%s is %s: it must be an instant like 2026-05-16T08:41:27.123Z", param, clip(fmt.Sprintf("%q", value)))
	}
	return at, nil
}

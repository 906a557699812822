package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// extendDefault is the extension of a request that names none, and extendMax
// the longest one.
const (
	extendDefault = 60 * time.Second
	extendMax     = 7 * 24 * time.Hour
)

// extend serves POST /api/v1/lease/:leaseId/extend (section 4.1). The answer is
// the object all clients expect; a lease that is gone is 404 or 409.
func (s *Server) extend(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	seconds := extendDefault
	err = object(body, func(name string, value jsontext.Value) error {
		if name != "seconds" || value.Kind() == 'n' {
			return nil
		}
		n, err := wholeNumber("seconds", value)
		if err != nil {
			return err
		}
		if n < 1 || n > int64(extendMax/time.Second) {
			return queue.Invalidf("seconds is %d: it must be between 1 and %d", n, int64(extendMax/time.Second))
		}
		seconds = time.Duration(n) * time.Second
		return nil
	})
	if err != nil {
		return err
	}
	text, err := pathName(c, "leaseId")
	if err != nil {
		return err
	}
	id, err := queue.ParseID(text)
	if err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: "Lease not found"}
	}
	var until time.Time
	if err == nil {
		until, err = s.deps.Verbs.Extend(c.Request().Context(), id, seconds)
	}
	switch code := queue.CodeOf(err); code {
	case "":
		return answer(c, http.StatusOK, appendExtension(text, "", until))
	case queue.CodeNotFound, queue.CodeLeaseGone:
		return answer(c, statusOf[code], appendExtension(text, err.Error(), until))
	default:
		return err
	}
}

func appendExtension(leaseID, failure string, until time.Time) []byte {
	b := appendString([]byte(`{"leaseId":`), leaseID)
	if failure != "" {
		b = append(b, `,"success":false,"error":`...)
		b = appendString(b, failure)
		return append(b, `,"expiresAt":null,"newExpiresAt":null}`...)
	}
	at := formatMillis(until)
	b = append(b, `,"success":true,"error":null,"expiresAt":"`...)
	b = append(b, at...)
	b = append(b, `","newExpiresAt":"`...)
	b = append(b, at...)
	return append(b, `"}`...)
}

// wholeNumber reads a JSON number without a fraction.
func wholeNumber(field string, value jsontext.Value) (int64, error) {
	if value.Kind() == '0' {
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return n, nil
		}
		// 3e2 and 300.0 are whole numbers too.
		if f, err := strconv.ParseFloat(string(value), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), nil
		}
	}
	return 0, queue.Invalidf("%s must be a whole number, not %s", field, clip(string(value)))
}

// clip shortens a value that is shown in an error.
func clip(s string) string {
	if len(s) > 60 {
		return s[:57] + "..."
	}
	return s
}

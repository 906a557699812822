package wire

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Params reads the parameters of one request. Err is the first error. If Err is
// set, do not use the values.
type Params struct {
	echo.Context
	Err error
	// Status is the HTTP status of the answer.
	Status int
}

// Ctx returns the context of the request.
func (p *Params) Ctx() context.Context { return p.Request().Context() }

// Check records err unless an earlier error exists.
func (p *Params) Check(err error) {
	if p.Err == nil {
		p.Err = err
	}
}

// PathName returns a decoded path parameter. It must be a valid name.
func (p *Params) PathName(param string) string {
	name, err := unescaped(p.Context, param)
	if err == nil {
		err = CheckName("the "+param+" in the path", name)
	}
	p.Check(err)
	return name
}

// PathText is like PathName, for a text that may be longer than a name.
func (p *Params) PathText(param string) string {
	text, err := unescaped(p.Context, param)
	if err == nil && strings.ContainsRune(text, 0) {
		err = queue.Invalidf("the %s in the path contains a NUL character: remove it", param)
	}
	p.Check(err)
	return text
}

// Text returns a query parameter. It must be a valid name or empty. For an absent
// parameter it returns "".
func (p *Params) Text(param string) string {
	value := p.QueryParam(param)
	p.Check(CheckName(param, value))
	return value
}

// Name is like Text, but returns nil for an absent or empty parameter. Clients send an
// empty parameter for "not set".
func (p *Params) Name(param string) *string {
	if value := p.Text(param); value != "" {
		return &value
	}
	return nil
}

// Names returns the names of a query parameter that may be repeated. For an absent parameter it returns nil.
func (p *Params) Names(param string) []string {
	names := p.QueryParams()[param]
	for _, name := range names {
		p.Check(CheckName(param, name))
	}
	return names
}

// Instant returns a query parameter that is an instant. For an absent parameter it
// returns the zero time.
func (p *Params) Instant(param string) time.Time {
	at, err := Instant(param, p.QueryParam(param))
	p.Check(err)
	return at
}

// TransactionID returns the transaction id in the query, or "".
func (p *Params) TransactionID() string {
	id := p.QueryParam("transactionId")
	if !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		p.Check(queue.Invalidf("transactionId contains a NUL character or is not UTF-8"))
	}
	return id
}

// unescaped returns a decoded path parameter. It must be UTF-8.
func unescaped(c echo.Context, param string) (string, error) {
	raw := c.Param(param)
	text := raw
	if c.Request().URL.RawPath != "" {
		// The router matched the escaped path.
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			return "", queue.Invalidf("the %s in the path has an invalid escape: %v", param, err)
		}
		text = decoded
	}
	if !utf8.ValidString(text) {
		return "", queue.Invalidf("the %s in the path is not UTF-8", param)
	}
	return text, nil
}

// IsTrue reports whether a query parameter is true or 1.
func IsTrue(s string) bool { return s == "true" || s == "1" }

// LeadingInt returns the integer at the start of s. If s does not begin with an integer,
// it returns otherwise. Queen MQ reads numbers in a query like this.
func LeadingInt(s string, otherwise int) int {
	s = strings.TrimSpace(s)
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && (s[end] == '-' || s[end] == '+')) {
		end++
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		return otherwise
	}
	return n
}

// Seconds returns whole seconds, and 0 for a negative duration.
func Seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }

// Clamp returns n limited to the range from low to high.
func Clamp(low, n, high int) int { return max(low, min(n, high)) }

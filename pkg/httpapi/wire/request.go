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

// Params reads the parameters of one request. Err is the first error. A value
// that has an error must not be used.
type Params struct {
	echo.Context
	Err error
	// Status is the status of an answer as JSON.
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

// PathName returns a decoded path parameter that must be able to be a name.
func (p *Params) PathName(param string) string {
	name, err := unescaped(p.Context, param)
	if err == nil {
		err = CheckName("the "+param+" in the path", name)
	}
	p.Check(err)
	return name
}

// PathText is PathName for a text that may be longer than a name.
func (p *Params) PathText(param string) string {
	text, err := unescaped(p.Context, param)
	if err == nil && strings.ContainsRune(text, 0) {
		err = queue.Invalidf("the %s in the path contains a NUL character: remove it", param)
	}
	p.Check(err)
	return text
}

// Text returns a query parameter that is compared with a name. An absent parameter
// is "".
func (p *Params) Text(param string) string {
	value := p.QueryParam(param)
	p.Check(CheckName(param, value))
	return value
}

// Name is Text for a name that may itself be empty. It returns nil for an absent
// parameter, and for an empty one, which clients send for a parameter that is not
// set.
func (p *Params) Name(param string) *string {
	if value := p.Text(param); value != "" {
		return &value
	}
	return nil
}

// Instant returns an instant of the query. An absent parameter is the zero time.
func (p *Params) Instant(param string) time.Time {
	at, err := Instant(param, p.QueryParam(param))
	p.Check(err)
	return at
}

// TransactionID returns the transaction id in the query, or "".
func (p *Params) TransactionID() string {
	id := p.QueryParam("transactionId")
	if !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		p.Check(queue.Invalidf("transactionId is not UTF-8 without NUL"))
	}
	return id
}

// unescaped returns a decoded path parameter that is UTF-8.
func unescaped(c echo.Context, param string) (string, error) {
	raw := c.Param(param)
	text := raw
	if c.Request().URL.RawPath != "" {
		// The router matched the escaped path.
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			return "", queue.Invalidf("the %s in the path is not well escaped: %v", param, err)
		}
		text = decoded
	}
	if !utf8.ValidString(text) {
		return "", queue.Invalidf("the %s in the path is not UTF-8", param)
	}
	return text, nil
}

// IsTrue reports whether a query parameter is set: true or 1.
func IsTrue(s string) bool { return s == "true" || s == "1" }

// LeadingInt returns the integer at the start of s, or otherwise when there is
// no integer. Queen MQ reads numbers in a query in this way.
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

// Clamp returns n, or the bound that n exceeds.
func Clamp(low, n, high int) int { return max(low, min(n, high)) }

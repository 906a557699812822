package wire

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// PathName returns a decoded path parameter that can be a name.
func PathName(c echo.Context, param string) (string, error) {
	name, err := unescaped(c, param)
	if err != nil {
		return "", err
	}
	return name, CheckName("the "+param+" in the path", name)
}

// PathText is PathName for a text that may be longer than a name.
func PathText(c echo.Context, param string) (string, error) {
	text, err := unescaped(c, param)
	switch {
	case err != nil:
		return "", err
	case strings.ContainsRune(text, 0):
		return "", queue.Invalidf("the %s in the path contains a NUL character: remove it", param)
	}
	return text, nil
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

// TextQuery reads a query parameter that is compared with a name. An absent
// parameter is "".
func TextQuery(c echo.Context, param string) (string, error) {
	value := c.QueryParam(param)
	return value, CheckName(param, value)
}

// NameQuery is TextQuery for a name that may itself be empty. It returns nil
// for an absent parameter, and for an empty one, which clients send for a
// parameter that is not set.
func NameQuery(c echo.Context, param string) (*string, error) {
	value, err := TextQuery(c, param)
	if err != nil || value == "" {
		return nil, err
	}
	return &value, nil
}

// InstantQuery reads an instant. An absent parameter is the zero time.
func InstantQuery(c echo.Context, param string) (time.Time, error) {
	return Instant(param, c.QueryParam(param))
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

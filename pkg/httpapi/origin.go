package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/token"
)

// anyOrigin in http.cors_origins allows the pages of every origin.
const anyOrigin = "*"

// origins decides which requests of browsers are served. A program that is no browser sends neither
// Sec-Fetch-Site nor Origin, and all its requests are served.
type origins struct {
	allowed    []string
	protection *http.CrossOriginProtection
}

// newOrigins expects origins that checkOrigins accepts.
func newOrigins(allowed []string) origins {
	o := origins{allowed: allowed, protection: http.NewCrossOriginProtection()}
	for _, origin := range allowed {
		_ = o.protection.AddTrustedOrigin(origin) // "*" is no origin: see allows
	}
	return o
}

// checkOrigins returns an error for each entry of http.cors_origins that is no origin.
func checkOrigins(allowed []string) (errs []error) {
	for _, origin := range allowed {
		err := http.NewCrossOriginProtection().AddTrustedOrigin(origin)
		if origin != anyOrigin && (err != nil || origin != strings.ToLower(origin)) {
			errs = append(errs, fmt.Errorf(
				"http.cors_origins has %q: it must be * or scheme://host:port in lower case, without a path, such as https://ops.example.com", origin))
		}
	}
	return errs
}

// any reports whether the pages of every origin are allowed.
func (o origins) any() bool { return slices.Contains(o.allowed, anyOrigin) }

// allows reports whether pages of this origin may send requests.
func (o origins) allows(origin string) bool {
	return origin != "" && (o.any() || slices.Contains(o.allowed, origin))
}

// headers adds the CORS headers for an allowed origin, and answers OPTIONS.
func (o origins) headers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		if len(o.allowed) > 0 {
			h.Add("Vary", "Origin")
		}
		if origin := c.Request().Header.Get("Origin"); o.allows(origin) {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS")
			h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization")
			h.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id")
			if c.Request().Method == http.MethodOptions {
				h.Set("Access-Control-Max-Age", "86400")
			}
		}
		if c.Request().Method == http.MethodOptions {
			return c.NoContent(http.StatusNoContent)
		}
		return next(c)
	}
}

// refuse answers 403 to a request that a browser sends for a page of an origin that is not
// allowed. It runs after the router, because only the route says that a GET changes state; changing has the paths of
// these.
//
// Behind a proxy that changes the Host, the Origin of every page is foreign. If the browser sends no
// Sec-Fetch-Site, then a token that auth verifies shows that a page of the proxy sent the request. A proxy may
// add a token to the requests of all pages, so a token never outweighs Sec-Fetch-Site.
func (s *Server) refuse(auth Authenticator, changing map[string]bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			isVerified := auth != nil && !auth.Skips(c.Path()) && hasToken(r)
			if s.origins.any() || isVerified && r.Header.Get("Sec-Fetch-Site") == "" {
				return next(c)
			}
			if changing[c.Path()] {
				r = asChange(r)
			}
			if s.origins.protection.Check(r) != nil {
				s.answerError(c, http.StatusForbidden, foreignOrigin(r))
				return nil
			}
			return next(c)
		}
	}
}

// hasToken reports whether a request has a token in its Authorization header. A browser never adds a token by
// itself, and it asks the server before it sends this header for a page of another origin. A browser does add
// the other schemes by itself, such as Basic. They have a space after their name.
func hasToken(r *http.Request) bool {
	text := token.FromHeader(r.Header.Get(echo.HeaderAuthorization))
	return text != "" && !strings.Contains(text, " ")
}

// foreignOrigin returns the text for a request that refuse does not serve.
func foreignOrigin(r *http.Request) string {
	page := r.Header.Get("Origin")
	if page == "" {
		page = refererOrigin(r)
	}
	if page == "" || page == "null" {
		return "a browser sent this request for a page of another origin: add the origin of the page to http.cors_origins if it may do so"
	}
	return fmt.Sprintf("a browser sent this request for a page of %.300q, and the request is for the host %.300q: "+
		"add the origin of the page to http.cors_origins if it may do so", page, r.Host)
}

// refererOrigin returns the origin of the page that a request names, or "".
func refererOrigin(r *http.Request) string {
	from, err := url.Parse(r.Header.Get("Referer"))
	if err != nil || from.Host == "" {
		return ""
	}
	return from.Scheme + "://" + from.Host
}

// asChange returns a copy of a GET that changes state for the check of its origin, which passes
// every GET.
//
// Over plain HTTP, a browser sends neither Sec-Fetch-Site nor the Origin of a GET. Then the
// copy has the origin of the Referer. A page can suppress the Referer. Then the origin of a
// browser is unknown, which the origin null stands for.
func asChange(r *http.Request) *http.Request {
	changed := *r
	changed.Method = http.MethodPost
	if r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != "" {
		return &changed
	}
	origin := refererOrigin(r)
	if origin == "" && isBrowser(r) {
		origin = "null"
	}
	if origin != "" {
		changed.Header = r.Header.Clone()
		changed.Header.Set("Origin", origin)
	}
	return &changed
}

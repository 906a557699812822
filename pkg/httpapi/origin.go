package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/token"
)

// anyOrigin in http.cors_origins allows the pages of every origin.
const anyOrigin = "*"

// origins decides which requests of browsers the server serves. It accepts all requests without
// Sec-Fetch-Site and Origin, because only browsers send these headers.
type origins struct {
	allowed    []string
	protection *http.CrossOriginProtection
}

// newOrigins requires origins that checkOrigins accepts.
func newOrigins(allowed []string) origins {
	o := origins{allowed: allowed, protection: http.NewCrossOriginProtection()}
	for _, origin := range allowed {
		_ = o.protection.AddTrustedOrigin(origin) // fails for "*", which any handles
	}
	return o
}

// checkOrigins returns an error for each invalid entry of http.cors_origins.
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

// refuse answers 403 to a request that a browser sends for a page whose origin is not allowed. It runs after
// the router, because changing has the paths of the GETs that change state.
//
// Behind a proxy that changes the Host, the origin of every page seems foreign. Therefore refuse accepts a request
// without Sec-Fetch-Site if it has a token that auth verifies. It does not accept a request with a foreign
// Sec-Fetch-Site because of a token: a proxy may add a token to the requests of all pages.
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

// hasToken reports whether a request has a bearer token in its Authorization header. A browser never adds a bearer
// token by itself, and asks the server before it sends a bearer token for a page of another origin. Other schemes, such as
// Basic, do not count, because browsers add them by themselves. Their value contains a space.
func hasToken(r *http.Request) bool {
	text := token.FromHeader(r.Header.Get(echo.HeaderAuthorization))
	return text != "" && !strings.Contains(text, " ")
}

// foreignOrigin returns the error text for a request that refuse refuses.
func foreignOrigin(r *http.Request) string {
	page := r.Header.Get("Origin")
	if page == "" {
		page = refererOrigin(r)
	}
	if page == "" || page == "null" {
		return "a browser sent this request for a page of another origin: add the origin of the page to http.cors_origins to allow its requests"
	}
	return fmt.Sprintf("a browser sent this request for a page of %.300q, and the request is for the host %.300q: "+
		"add the origin of the page to http.cors_origins to allow its requests", page, r.Host)
}

// refererOrigin returns the origin in the Referer of a request, or "".
func refererOrigin(r *http.Request) string {
	from, err := url.Parse(r.Header.Get("Referer"))
	if err != nil || from.Host == "" {
		return ""
	}
	return from.Scheme + "://" + from.Host
}

// asChange returns a copy of a GET that changes state. The copy is a POST, because the check of
// the origin accepts every GET.
//
// Over plain HTTP, a browser sends neither Sec-Fetch-Site nor the Origin of a GET. Then the
// copy has the origin of the Referer. If a browser sends no Referer either, the copy has the
// origin null, which means unknown.
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

// hosts has the host names under which browsers may use a server that requires no token. It prevents DNS rebinding.
//
// The owner of a public web site can change the DNS so that the name of the site has the address of this server. Then a
// page of the site has the same origin as the server, and may read and change everything. The name of a public site has a
// dot. So the host in a browser's request must be an IP address, a name without a dot, or a name in the configuration.
type hosts struct{ allowed []string }

// newHosts requires names that checkHosts accepts.
func newHosts(cfg Config) hosts {
	listening, _, _ := net.SplitHostPort(cfg.Addr) // Validate has checked the address
	return hosts{append([]string{strings.ToLower(listening)}, cfg.AllowedHosts...)}
}

// checkHosts returns an error for each invalid entry of http.allowed_hosts.
func checkHosts(allowed []string) (errs []error) {
	for _, host := range allowed {
		if host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, ":/ ") {
			errs = append(errs, fmt.Errorf("http.allowed_hosts has %q: it must be * or the name of a host in lower case, without scheme and port, such as belfry.example.com", host))
		}
	}
	return errs
}

// allows reports whether a browser may send a request with this Host.
func (h hosts) allows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || !strings.Contains(host, ".") {
		return true
	}
	return strings.HasSuffix(host, ".localhost") || slices.Contains(h.allowed, host) || slices.Contains(h.allowed, "*")
}

// refuseHost answers 403 to a request of a browser for a host that is not allowed. It does nothing if requests need a token
// or a client certificate, because a page cannot send these without the user.
func (s *Server) refuseHost(auth Authenticator) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			open := auth == nil && s.cfg.TLSClientCAFile == ""
			if open && isBrowser(r) && !s.hosts.allows(r.Host) && !s.origins.allows(r.Header.Get("Origin")) {
				s.answerError(c, http.StatusForbidden, fmt.Sprintf(
					"a browser sent this request for the host %.300q, and the server needs no token: add the host to http.allowed_hosts if it is a name of this server", r.Host))
				return nil
			}
			return next(c)
		}
	}
}

// isBrowser reports whether a browser sent a request. A browser sends Sec-Fetch-Site, Origin, or both User-Agent and
// Accept-Language. A page cannot suppress the last two headers.
func isBrowser(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != "" ||
		strings.HasPrefix(r.UserAgent(), "Mozilla/") && len(r.Header["Accept-Language"]) > 0
}

// checkProxies returns an error for each invalid entry of http.trusted_proxies.
func checkProxies(networks []string) (errs []error) {
	for _, network := range networks {
		if _, _, err := net.ParseCIDR(network); err != nil {
			errs = append(errs, fmt.Errorf(
				"http.trusted_proxies has %q: it must be a network such as 10.0.0.0/8, or one address such as 10.1.2.3/32 or fd00::1/128", network))
		}
	}
	return errs
}

// clientAddress returns a function that finds the address of a client. If the sender of a request is in a
// trusted network, the client is the rightmost address in X-Forwarded-For that is not in a trusted
// network. Otherwise the client is the sender, because every client can send X-Forwarded-For.
// clientAddress requires networks that checkProxies accepts.
func clientAddress(networks []string) echo.IPExtractor {
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, network := range networks {
		if _, parsed, err := net.ParseCIDR(network); err == nil {
			trust = append(trust, echo.TrustIPRange(parsed))
		}
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

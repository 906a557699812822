package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// hosts are the names under which browsers may use a server that requires no token.
//
// The owner of a web site can make its name lead to the address of this server. Then the pages of the site are of the
// same origin as the server, and may read and change everything (DNS rebinding). Such a name has a dot, because the
// site is a public one. So the host of a browser's request must be an IP address, a name without a dot, or a name that
// the configuration has.
type hosts struct{ allowed []string }

// newHosts expects names that checkHosts accepts.
func newHosts(cfg Config) hosts {
	listening, _, _ := net.SplitHostPort(cfg.Addr) // Validate has checked it
	return hosts{append([]string{strings.ToLower(listening)}, cfg.AllowedHosts...)}
}

// checkHosts returns an error for each entry of http.allowed_hosts that is no name of a host.
func checkHosts(allowed []string) (errs []error) {
	for _, host := range allowed {
		if host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, ":/ ") {
			errs = append(errs, fmt.Errorf("http.allowed_hosts has %q: it must be * or the name of a host in lower case, without scheme and port, such as belfry.example.com", host))
		}
	}
	return errs
}

// allows reports whether a request of a browser may have this Host.
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

// refuseHost answers 403 to a request of a browser for a host that is not allowed, unless every request needs a token or
// a client certificate: a page cannot send these without the user.
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

// isBrowser reports whether a browser sent a request. A page can suppress neither User-Agent nor Accept-Language, which
// together tell a browser from other programs.
func isBrowser(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != "" ||
		strings.HasPrefix(r.UserAgent(), "Mozilla/") && len(r.Header["Accept-Language"]) > 0
}

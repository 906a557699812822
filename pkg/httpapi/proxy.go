package httpapi

import (
	"fmt"
	"net"

	"github.com/labstack/echo/v4"
)

// checkProxies returns an error for each entry of http.trusted_proxies that is no network.
func checkProxies(networks []string) (errs []error) {
	for _, network := range networks {
		if _, _, err := net.ParseCIDR(network); err != nil {
			errs = append(errs, fmt.Errorf(
				"http.trusted_proxies has %q: it must be a network such as 10.0.0.0/8, or one address such as 10.1.2.3/32 or fd00::1/128", network))
		}
	}
	return errs
}

// clientAddress returns how the address of a client is found. If the sender of a request is in one of
// the networks, it is the rightmost address in X-Forwarded-For that is in none of them. Otherwise it
// is the address of the sender, because every client can send that header.
// It expects networks that checkProxies accepts.
func clientAddress(networks []string) echo.IPExtractor {
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, network := range networks {
		if _, parsed, err := net.ParseCIDR(network); err == nil {
			trust = append(trust, echo.TrustIPRange(parsed))
		}
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

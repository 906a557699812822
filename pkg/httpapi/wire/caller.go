package wire

import (
	"net/netip"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// networkBits is the prefix length of the network that an IPv6 customer usually gets. All addresses of
// the network count as one caller.
const networkBits = 64

// Caller returns a name for the sender of a request: the subject of its principal, or its IPv4 address,
// or the network of its IPv6 address. It returns "" if the address is unknown.
func Caller(c echo.Context) string {
	if subject := identity.Subject(c.Request().Context()); subject != "" {
		return "subject " + subject
	}
	address, err := netip.ParseAddr(c.RealIP())
	if err != nil {
		return ""
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, err := address.Prefix(networkBits)
	if err != nil {
		return ""
	}
	return network.String()
}

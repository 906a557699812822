package wire

import (
	"net/netip"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// networkBits is the size of the network that one IPv6 customer gets. All its addresses are one
// caller.
const networkBits = 64

// Caller returns a name for the sender of the request: the subject of its principal, or else its IPv4
// address, or the network of its IPv6 address. It is empty if nothing is known.
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

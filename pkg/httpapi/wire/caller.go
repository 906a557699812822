package wire

import (
	"net/netip"

	"github.com/labstack/echo/v4"
)

// networkBits is the size of the network that one IPv6 customer gets. All its addresses are one
// caller.
const networkBits = 64

// Caller returns a name for the sender of the request: its IPv4 address, or the network of its IPv6
// address. It is empty if the address is unknown.
func Caller(c echo.Context) string {
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

package httpapi

import (
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Only a trusted proxy names the caller. The addresses of one IPv6 customer are one caller.
func TestCallerIsTheAddressThatATrustedProxySaw(t *testing.T) {
	t.Parallel()
	const forged, client = "203.0.113.9", "198.51.100.7"
	for _, c := range []struct {
		proxies           []string
		sender, forwarded string
		want              string
	}{
		{nil, "127.0.0.1:1", forged, "127.0.0.1"},
		{nil, "10.0.0.1:1", forged, "10.0.0.1"},
		{[]string{"10.0.0.0/8"}, "192.0.2.1:1", forged, "192.0.2.1"},
		{[]string{"10.0.0.0/8"}, "10.0.0.1:1", forged + ", " + client, client},
		{[]string{"10.0.0.0/8"}, "10.0.0.1:1", forged + ", " + client + ", 10.0.0.2", client},
		{[]string{"10.0.0.0/8"}, "10.0.0.1:1", "nonsense", "10.0.0.1"},
		{[]string{"10.0.0.0/8"}, "10.0.0.1:1", "", "10.0.0.1"},
		{[]string{"fd00::1/128"}, "[fd00::1]:1", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"},
		{nil, "[2001:db8:1:2:ffff::1]:1", "", "2001:db8:1:2::/64"},
		{nil, "[fe80::1%eth0]:1", "", "fe80::/64"},
		{nil, "[::ffff:192.0.2.1]:1", "", "192.0.2.1"},
	} {
		e := echo.New()
		e.IPExtractor = clientAddress(c.proxies)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = c.sender
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		require.Equal(t, c.want, wire.Caller(e.NewContext(r, nil)), "%+v", c)
	}
}

func TestTrustedProxiesAreNetworks(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.TrustedProxies = []string{"10.0.0.0/8", "fd00::1/128"}
	require.NoError(t, cfg.Validate())
	cfg.TrustedProxies = []string{"10.0.0.1", "proxy.example.com"}
	err := cfg.Validate()
	require.ErrorContains(t, err, `http.trusted_proxies has "10.0.0.1"`)
	require.ErrorContains(t, err, `http.trusted_proxies has "proxy.example.com"`)
}

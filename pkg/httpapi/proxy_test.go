package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Only a trusted proxy can name the caller. All IPv6 addresses of a /64 network are one caller.
func TestCallerIsTheAddressThatATrustedProxySaw(t *testing.T) {
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
	cfg := DefaultConfig()
	cfg.TrustedProxies = []string{"10.0.0.0/8", "fd00::1/128"}
	require.NoError(t, cfg.Validate())
	cfg.TrustedProxies = []string{"10.0.0.1", "proxy.example.com"}
	err := cfg.Validate()
	require.ErrorContains(t, err, `http.trusted_proxies has "10.0.0.1"`)
	require.ErrorContains(t, err, `http.trusted_proxies has "proxy.example.com"`)
}

func TestRateCoversTheLastMinute(t *testing.T) {
	var r rate
	at := time.Unix(1_000_000, 0)
	require.Zero(t, r.perSecond(at))
	r.add(at, 60)
	r.add(at.Add(30*time.Second), 30)
	require.InDelta(t, 1.5, r.perSecond(at.Add(59*time.Second)), 0)
	require.InDelta(t, 0.5, r.perSecond(at.Add(60*time.Second)), 0, "the first second is outside the minute")
	r.add(at.Add(60*time.Second), 1)
	require.InDelta(t, 0.52, r.perSecond(at.Add(60*time.Second)), 0)
	require.Zero(t, r.perSecond(at.Add(time.Hour)))
}

// FuzzOrigins reads any list of http.cors_origins. With an accepted list, the server serves the pages of the
// listed origins and of no other origin.
func FuzzOrigins(f *testing.F) {
	f.Add("https://ops.example.com", "https://ops.example.com")
	f.Add("https://ops.example.com,http://localhost:3000", "https://ops.example.com:443")
	f.Add("*", "null")
	f.Add("https://ops.example.com/", "https://ops.example.com/")
	f.Add("https://[::1]:1", "http://[::1]:1")
	f.Add("HTTPS://ops,null,https://,https://a b,https://u:p@h", "")
	f.Fuzz(func(t *testing.T, list, other string) {
		allowed := strings.Split(list, ",")
		if checkOrigins(allowed) != nil {
			return
		}
		o := newOrigins(allowed)
		for _, origin := range append(allowed, other) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://belfry.invalid/api/v1/push", nil)
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Origin", origin)
			listed := slices.Contains(allowed, origin)
			require.Equal(t, origin != "" && (listed || slices.Contains(allowed, anyOrigin)), o.allows(origin), origin)
			require.Equal(t, listed && origin != anyOrigin, o.protection.Check(r) == nil, origin)
		}
	})
}

// FuzzTrustedProxies reads any list of http.trusted_proxies. With an accepted list, only a sender in one
// of the networks can name the client. The result is always a valid address.
func FuzzTrustedProxies(f *testing.F) {
	f.Add("10.0.0.0/8,fd00::1/128", []byte{10, 0, 0, 1}, "203.0.113.9, 198.51.100.7")
	f.Add("10.0.0.0/8", []byte{192, 0, 2, 1}, "203.0.113.9")
	f.Add("10.0.0.0/8", []byte{127, 0, 0, 1}, "203.0.113.9")
	f.Add("0.0.0.0/0,::/0", []byte{10, 0, 0, 1}, "nonsense")
	f.Add("fd00::1/128", []byte{0xfd, 15: 1}, "2001:db8::1, [::1]:7,,")
	f.Add("::ffff:10.0.0.0/104", []byte{10, 0, 0, 1}, "fe80::1%eth0")
	f.Add("10.0.0.1,10.0.0.0/33,/", []byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}, "\x00")
	f.Fuzz(func(t *testing.T, list string, sender []byte, forwarded string) {
		networks := strings.Split(list, ",")
		from, ok := netip.AddrFromSlice(sender)
		if !ok || checkProxies(networks) != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = netip.AddrPortFrom(from, 1).String()
		r.Header.Set("X-Forwarded-For", forwarded)
		client, err := netip.ParseAddr(clientAddress(networks)(r))
		require.NoError(t, err)
		if client.Unmap() == from.Unmap() {
			return
		}
		require.True(t, slices.ContainsFunc(networks, func(network string) bool {
			p, err := netip.ParsePrefix(network)
			return err == nil && (p.Contains(from.Unmap()) || p.Addr().Is4In6() && p.Bits() >= 96 &&
				netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Contains(from.Unmap()))
		}), "the sender is in no network")
	})
}

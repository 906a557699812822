package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/test/apitest"
)

const (
	popPath   = "/api/v1/pop/queue/orders"
	evil      = "https://evil.example"
	ops       = "https://ops.example"
	userAgent = "Mozilla/5.0 (X11; Linux x86_64)"
)

// fetch sends a request of a browser. headers has the names and values of the headers in turn.
func fetch(f *apitest.Fakes, allowed []string, method, target string, headers ...string) *httptest.ResponseRecorder {
	edit := func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.CORSOrigins = allowed }
	return browse(f, []func(*httpapi.Config, *httpapi.Deps){edit}, method, target, headers...)
}

// browse is like fetch, with a server of any configuration.
func browse(f *apitest.Fakes, edits []func(*httpapi.Config, *httpapi.Deps), method, target string, headers ...string) *httptest.ResponseRecorder {
	s, _ := apitest.Server(f, edits...)
	body := ""
	if method == http.MethodPost {
		body = apitest.OnePush
	}
	r := apitest.Request(method, target, body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return apitest.Send(s, r)
}

func TestPageOfAnotherOriginIsRefused(t *testing.T) {
	for name, headers := range map[string][]string{
		"cross-site":                    {"Sec-Fetch-Site", "cross-site"},
		"same-site":                     {"Sec-Fetch-Site", "same-site", "Origin", "http://other.example.com"},
		"a form":                        {"Sec-Fetch-Site", "cross-site", "Origin", evil, "Content-Type", "text/plain"},
		"an origin over HTTP":           {"Origin", "http://evil.example"},
		"an origin that is not allowed": {"Origin", evil, "Sec-Fetch-Site", "cross-site"},
	} {
		for _, allowed := range [][]string{nil, {ops}} {
			for method, target := range map[string]string{http.MethodPost: "/api/v1/push", http.MethodGet: popPath, http.MethodDelete: "/api/v1/dlq?queue=q"} {
				f := &apitest.Fakes{}
				rec := fetch(f, allowed, method, target, headers...)
				require.Contains(t, apitest.RequireError(t, rec, http.StatusForbidden), "http.cors_origins", name)
				require.False(t, f.Reached(), "%s: %s", name, target)
				require.Empty(t, rec.Header().Get("Access-Control-Allow-Origin"), name)
			}
		}
	}
}

// Over plain HTTP a browser sends no Sec-Fetch-Site, and no Origin with a GET.
func TestPopOfAPageIsRefusedOverPlainHTTP(t *testing.T) {
	for name, headers := range map[string][]string{
		"a page of another site": {"Referer", "http://evil.example/"},
		"an unknown page":        {"User-Agent", userAgent, "Accept-Language", "en"},
		"an empty language":      {"User-Agent", userAgent, "Accept-Language", ""},
	} {
		f := &apitest.Fakes{}
		apitest.RequireError(t, fetch(f, nil, http.MethodGet, popPath, headers...), http.StatusForbidden)
		require.False(t, f.Reached(), name)
	}
}

func TestOtherRequestsAreServed(t *testing.T) {
	for name, headers := range map[string][]string{
		"curl":                     {"User-Agent", "curl/8"},
		"a client in PowerShell":   {"User-Agent", "Mozilla/5.0 (Windows NT) WindowsPowerShell/5.1"},
		"a page of this server":    {"Sec-Fetch-Site", "same-origin", "Origin", "https://example.com", "User-Agent", userAgent},
		"the same over HTTP":       {"Referer", "http://example.com/page", "User-Agent", userAgent, "Accept-Language", "en"},
		"a URL that a user enters": {"Sec-Fetch-Site", "none", "User-Agent", userAgent, "Accept-Language", "en"},
	} {
		for _, allowed := range [][]string{nil, {ops}} {
			require.Equal(t, http.StatusCreated, fetch(&apitest.Fakes{}, allowed, http.MethodPost, "/api/v1/push", headers...).Code, name)
			require.Equal(t, http.StatusNoContent, fetch(&apitest.Fakes{}, allowed, http.MethodGet, popPath, headers...).Code, name)
		}
	}
	rec := fetch(&apitest.Fakes{}, nil, http.MethodGet, "/health", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusOK, rec.Code, "the page cannot read the answer, and the request changes nothing")
}

func TestCORSIsOffUnlessTheOriginIsListed(t *testing.T) {
	for _, c := range []struct {
		allowed []string
		origin  string
		served  bool
	}{
		{nil, evil, false},
		{[]string{ops}, evil, false},
		{[]string{ops}, ops + ".evil.example", false},
		{[]string{ops}, ops, true},
		{[]string{"*"}, evil, true},
	} {
		want := ""
		if c.served {
			want = c.origin
		}
		for _, method := range []string{http.MethodOptions, http.MethodPost} {
			rec := fetch(&apitest.Fakes{}, c.allowed, method, "/api/v1/push", "Origin", c.origin, "Sec-Fetch-Site", "cross-site")
			require.Equal(t, want, rec.Header().Get("Access-Control-Allow-Origin"), "%v", c)
			require.Equal(t, c.served, rec.Header().Get("Access-Control-Allow-Methods") != "", "%v", c)
			require.Equal(t, len(c.allowed) > 0, rec.Header().Get("Vary") == "Origin", "%v", c)
			if method == http.MethodOptions {
				require.Equal(t, http.StatusNoContent, rec.Code)
				require.Equal(t, c.served, rec.Header().Get("Access-Control-Max-Age") != "", "%v", c)
				continue
			}
			require.Equal(t, c.served, rec.Code == http.StatusCreated, "%v", c)
		}
	}
}

func TestEveryOriginIsAllowedWithAWarning(t *testing.T) {
	_, logs := apitest.Server(&apitest.Fakes{}, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.CORSOrigins = []string{"*"} })
	require.Equal(t, 1, logs.FilterMessageSnippet("http.cors_origins").Len())
}

func TestOriginsAreChecked(t *testing.T) {
	cfg := httpapi.DefaultConfig()
	cfg.CORSOrigins = []string{"*", ops, "http://localhost:3000"}
	require.NoError(t, cfg.Validate())
	for _, origin := range []string{"ops.example", "https://", ops + "/", "https://Ops.example", "null"} {
		cfg.CORSOrigins = []string{origin}
		require.ErrorContains(t, cfg.Validate(), `http.cors_origins has "`+origin+`"`)
	}
}

// proxied starts a server behind a proxy that changes the Host and keeps the Origin, as a proxy with
// changeOrigin does. It returns the URL of the proxy.
func proxied(t *testing.T, edits ...func(*httpapi.Config, *httpapi.Deps)) string {
	t.Helper()
	s, _ := apitest.Server(&apitest.Fakes{}, edits...)
	api := httptest.NewServer(s.Handler())
	t.Cleanup(api.Close)
	target, err := url.Parse(api.URL)
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// A browser never adds a bearer token by itself, and a page of another origin cannot make the browser add one. So without
// Sec-Fetch-Site, a request with a verified token is not forged. Cookies and other schemes prove nothing, because a
// browser adds them by itself.
func TestBearerTokenBehindAProxy(t *testing.T) {
	for _, server := range []struct {
		name  string
		edits []func(*httpapi.Config, *httpapi.Deps)
		// served is the status of a push with a valid token. foreign is the status with an unknown token.
		served, foreign int
	}{
		{"no authentication", nil, http.StatusForbidden, http.StatusForbidden},
		{"authentication", []func(*httpapi.Config, *httpapi.Deps){withTokens}, http.StatusCreated, http.StatusUnauthorized},
	} {
		proxy := proxied(t, server.edits...)
		for _, c := range []struct {
			name, header, value string
			status              int
		}{
			{"a token", "Authorization", "Bearer admin", server.served},
			{"a token in lower case", "Authorization", "bearer admin", server.served},
			{"a token alone", "Authorization", "admin", server.served},
			{"a foreign token", "Authorization", "Bearer foreign", server.foreign},
			{"a role that is too low", "Authorization", "Bearer read-only", http.StatusForbidden},
			{"nothing", "X-Nothing", "", http.StatusForbidden},
			{"the cookie of the dashboard", "Cookie", "belfry_token=admin", http.StatusForbidden},
			{"a scheme without a token", "Authorization", "Bearer", http.StatusForbidden},
			{"an empty header", "Authorization", "", http.StatusForbidden},
			{"Basic", "Authorization", "Basic YWRtaW46YWRtaW4=", http.StatusForbidden},
			{"Digest", "Authorization", `Digest username="admin", response="6629fae4"`, http.StatusForbidden},
			{"Negotiate", "Authorization", "Negotiate YIIFiw", http.StatusForbidden},
		} {
			for _, origin := range []string{proxy, evil} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy+"/api/v1/push", strings.NewReader(apitest.OnePush))
				require.NoError(t, err)
				r.Header.Set("Origin", origin)
				r.Header.Set("User-Agent", userAgent)
				r.Header.Set(c.header, c.value)
				answer, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				text, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, c.status, answer.StatusCode, "%s, %s: %s", server.name, c.name, text)
				if c.status == http.StatusForbidden && c.value != "Bearer read-only" {
					require.Contains(t, string(text), "http.cors_origins", c.name)
					require.Contains(t, string(text), origin, c.name)
				}
			}
		}
	}
}

// A proxy that authenticates people, such as oauth2-proxy, adds a token to the requests of every page. So Sec-Fetch-Site
// has precedence over a token. A token that the server does not verify proves nothing.
func TestSecFetchSiteHasPrecedenceOverAToken(t *testing.T) {
	const verified, unverified = 1, 2
	for _, c := range []struct {
		name    string
		headers []string
		// served is the sum of the kinds of tokens (verified, unverified) with which the server accepts the request.
		served int
	}{
		{"a link", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 0},
		{"an image", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 0},
		{"a form", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Origin", evil}, 0},
		{"a page of a sibling", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://shop.example.com"}, 0},
		{"a page of the proxy", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:4000"}, verified + unverified},
		{"a fetch of a GET", []string{"Sec-Fetch-Site", "same-origin", "Referer", "http://localhost:4000/"}, verified + unverified},
		{"a URL that a user enters", []string{"Sec-Fetch-Site", "none", "User-Agent", userAgent, "Accept-Language", "en"}, verified + unverified},
		{"an origin over HTTP", []string{"Origin", "http://proxy.example"}, verified},
		{"the origin null", []string{"Origin", "null"}, verified},
	} {
		for kind, edits := range map[int][]func(*httpapi.Config, *httpapi.Deps){verified: {withTokens}, unverified: nil} {
			for method, target := range map[string]string{http.MethodPost: "/api/v1/push", http.MethodGet: popPath + "?autoAck=true"} {
				f := &apitest.Fakes{}
				rec := browse(f, edits, method, target, append(c.headers, "Authorization", "Bearer admin")...)
				require.Equal(t, c.served&kind != 0, f.Reached(), "%s, %d, %s: %s", c.name, kind, method, rec.Body)
				if c.served&kind == 0 {
					require.Contains(t, apitest.RequireError(t, rec, http.StatusForbidden), "http.cors_origins", c.name)
				}
			}
		}
	}
}

// Over plain HTTP, a browser sends no origin with the GET of a pop. Then only a verified token allows the request.
func TestBearerTokenOfAPop(t *testing.T) {
	for _, headers := range [][]string{
		{"Origin", evil},
		{"Referer", evil + "/page"},
		{"User-Agent", userAgent, "Accept-Language", "en"},
	} {
		for name, status := range map[string]int{"Bearer admin": http.StatusNoContent, "Basic x": http.StatusForbidden, "": http.StatusForbidden} {
			for _, target := range []string{popPath, "/api/v1/pop?namespace=shop"} {
				rec := browse(&apitest.Fakes{}, []func(*httpapi.Config, *httpapi.Deps){withTokens}, http.MethodGet, target, append(headers, "Authorization", name)...)
				require.Equal(t, status, rec.Code, "%v %s %s", headers, name, target)
				rec = browse(&apitest.Fakes{}, nil, http.MethodGet, target, append(headers, "Authorization", name)...)
				require.Equal(t, http.StatusForbidden, rec.Code, "%v %s %s", headers, name, target)
			}
		}
	}
}

// A path in auth.skip_paths needs no token, so the server does not verify the token of a request to the path.
func TestTokenOfASkippedPathIsNotVerified(t *testing.T) {
	skipping := func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Auth = pushSkipped{} }
	rec := browse(&apitest.Fakes{}, []func(*httpapi.Config, *httpapi.Deps){skipping}, http.MethodPost, "/api/v1/push", "Origin", evil, "Authorization", "Bearer x")
	apitest.RequireError(t, rec, http.StatusForbidden)
}

// pushSkipped is tokens with the route of pushes in auth.skip_paths.
type pushSkipped struct{ tokens }

func (pushSkipped) Skips(route string) bool { return route == "/api/v1/push" }

// The error text names the origin to allow, if the request has an origin.
func TestRefusalNamesTheOrigin(t *testing.T) {
	for _, c := range []struct {
		method  string
		headers []string
		want    string
	}{
		{http.MethodPost, []string{"Origin", evil}, `"https://evil.example"`},
		{http.MethodGet, []string{"Referer", evil + "/page"}, `"https://evil.example"`},
		{http.MethodPost, []string{"Sec-Fetch-Site", "cross-site", "Referer", evil + "/page"}, `"https://evil.example"`},
		{http.MethodPost, []string{"Sec-Fetch-Site", "cross-site"}, "another origin"},
		{http.MethodPost, []string{"Origin", "null"}, "another origin"},
		{http.MethodGet, []string{"User-Agent", userAgent, "Accept-Language", "en"}, "another origin"},
	} {
		target := map[string]string{http.MethodPost: "/api/v1/push", http.MethodGet: popPath}[c.method]
		text := apitest.RequireError(t, fetch(&apitest.Fakes{}, nil, c.method, target, c.headers...), http.StatusForbidden)
		require.Contains(t, text, c.want, "%v", c.headers)
		require.Contains(t, text, "http.cors_origins", "%v", c.headers)
	}
	long := apitest.RequireError(t, fetch(&apitest.Fakes{}, nil, http.MethodPost, "/api/v1/push", "Origin", "https://"+strings.Repeat("x", 5000)), http.StatusForbidden)
	require.Less(t, len(long), 800, "a long value is shortened")
}

// If the DNS of a foreign name has the address of this server, pages of the foreign name have the same origin as the server.
// So browsers may use only allowed names.
func TestBrowsersUseOnlyNamesOfThisServer(t *testing.T) {
	browser := []string{"User-Agent", userAgent, "Accept-Language", "en"}
	allowed := func(names ...string) func(*httpapi.Config, *httpapi.Deps) {
		return func(cfg *httpapi.Config, _ *httpapi.Deps) {
			cfg.Addr, cfg.AllowedHosts = "queue.example.net:6632", names
		}
	}
	for _, c := range []struct {
		host    string
		headers []string
		served  bool
		edits   []func(*httpapi.Config, *httpapi.Deps)
	}{
		{"evil.example:6632", browser, false, nil},
		{"evil.example:6632", []string{"Sec-Fetch-Site", "same-origin"}, false, nil},
		{"evil.example", []string{"Origin", "http://evil.example"}, false, nil},
		{"evil.example:6632", []string{"User-Agent", "curl/8"}, true, nil},
		{"queue.example.net:6632", browser, true, nil},
		{"QUEUE.example.net.:6632", browser, true, nil},
		{"10.1.2.3:6632", browser, true, nil},
		{"[::1]:6632", browser, true, nil},
		{"[::1]", browser, true, nil},
		{"localhost", browser, true, nil},
		{"belfry:6632", browser, true, nil},
		{"a.localhost:6632", browser, true, nil},
		{"belfry.example", browser, true, []func(*httpapi.Config, *httpapi.Deps){allowed("belfry.example")}},
		{"other.example", browser, false, []func(*httpapi.Config, *httpapi.Deps){allowed("belfry.example")}},
		{"other.example", browser, true, []func(*httpapi.Config, *httpapi.Deps){allowed("*")}},
		{"other.example", browser, true, []func(*httpapi.Config, *httpapi.Deps){func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.TLSClientCAFile = "ca.pem" }}},
	} {
		f := &apitest.Fakes{}
		s, _ := apitest.Server(f, append([]func(*httpapi.Config, *httpapi.Deps){allowed()}, c.edits...)...)
		r := apitest.Request(http.MethodGet, "/api/v1/resources/queues", "")
		r.Host = c.host
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		rec := apitest.Send(s, r)
		if !c.served {
			require.Contains(t, apitest.RequireError(t, rec, http.StatusForbidden), "http.allowed_hosts", c.host)
			require.False(t, f.Reached(), c.host)
			continue
		}
		require.NotEqual(t, http.StatusForbidden, rec.Code, c.host)
	}
	cfg := httpapi.DefaultConfig()
	for _, name := range []string{"", "https://a.example", "a.example:80", "A.example"} {
		cfg.AllowedHosts = []string{name}
		require.ErrorContains(t, cfg.Validate(), `http.allowed_hosts has "`+name+`"`)
	}
}

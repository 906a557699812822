package httpapi_test

import (
	"net/http"
	"net/http/httptest"
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

// fetch sends a request of a browser. Its headers are in pairs.
func fetch(f *apitest.Fakes, allowed []string, method, target string, headers ...string) *httptest.ResponseRecorder {
	s, _ := apitest.Server(f, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.CORSOrigins = allowed })
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
	t.Parallel()
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
	t.Parallel()
	for name, headers := range map[string][]string{
		"the page is elsewhere": {"Referer", "http://evil.example/"},
		"the page is unknown":   {"User-Agent", userAgent, "Accept-Language", "en"},
		"an empty language":     {"User-Agent", userAgent, "Accept-Language", ""},
	} {
		f := &apitest.Fakes{}
		apitest.RequireError(t, fetch(f, nil, http.MethodGet, popPath, headers...), http.StatusForbidden)
		require.False(t, f.Reached(), name)
	}
}

func TestOtherRequestsAreServed(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{
		"curl":                   {"User-Agent", "curl/8"},
		"a client in PowerShell": {"User-Agent", "Mozilla/5.0 (Windows NT) WindowsPowerShell/5.1"},
		"a page of this server":  {"Sec-Fetch-Site", "same-origin", "Origin", "https://example.com", "User-Agent", userAgent},
		"the same over HTTP":     {"Referer", "http://example.com/page", "User-Agent", userAgent, "Accept-Language", "en"},
		"a user who enters it":   {"Sec-Fetch-Site", "none", "User-Agent", userAgent, "Accept-Language", "en"},
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
	t.Parallel()
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
	t.Parallel()
	_, logs := apitest.Server(&apitest.Fakes{}, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.CORSOrigins = []string{"*"} })
	require.Equal(t, 1, logs.FilterMessageSnippet("http.cors_origins").Len())
}

func TestOriginsAreChecked(t *testing.T) {
	t.Parallel()
	cfg := httpapi.DefaultConfig()
	cfg.CORSOrigins = []string{"*", ops, "http://localhost:3000"}
	require.NoError(t, cfg.Validate())
	for _, origin := range []string{"ops.example", "https://", ops + "/", "https://Ops.example", "null"} {
		cfg.CORSOrigins = []string{origin}
		require.ErrorContains(t, cfg.Validate(), `http.cors_origins has "`+origin+`"`)
	}
}

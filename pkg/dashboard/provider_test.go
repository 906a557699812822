package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/provider"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/test/openid"
)

// person is a browser that keeps cookies. It follows no redirect.
type person struct {
	setup
	remote  *openid.Provider
	cookies map[string]*http.Cookie
}

func newPerson(t *testing.T) *person {
	t.Helper()
	p := &person{remote: openid.Start(t), setup: setup{api: &api{}, changes: &source.Changes{}}, cookies: map[string]*http.Cookie{}}
	cfg := token.DefaultConfig()
	cfg.Enabled, cfg.Algorithm, cfg.Issuer, cfg.Audience, cfg.ClockSkew = true, token.RS256, p.remote.URL, "belfry", 0
	cfg.JWKSURL, cfg.ClientID, cfg.ClientSecret = p.remote.URL+"/keys", openid.ClientID, openid.ClientSecret
	require.NoError(t, cfg.Validate())
	verifier, err := token.New(t.Context(), cfg, nil, zap.NewNop())
	require.NoError(t, err)
	signIn, err := provider.New(cfg, verifier, zap.NewNop())
	require.NoError(t, err)
	p.Dashboard, err = dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{
		API: p.api, Auth: verifier, Provider: signIn, Changes: p.changes, Version: "v1", Log: zap.NewNop(),
	})
	require.NoError(t, err)
	return p
}

// load sends a request with the cookies, and keeps the cookies of the answer.
func (p *person) load(t *testing.T, method, path string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	w := p.send(t, method, path, "", append(edits, func(r *http.Request) {
		for _, cookie := range p.cookies {
			r.AddCookie(cookie)
		}
	})...)
	for _, cookie := range w.Result().Cookies() {
		p.cookies[cookie.Name] = cookie
		if cookie.MaxAge < 0 {
			delete(p.cookies, cookie.Name)
		}
	}
	return w
}

// atProvider signs in at the provider, and returns the path of the callback.
func (p *person) atProvider(t *testing.T, next string) string {
	t.Helper()
	w := p.load(t, http.MethodGet, "/ui/provider?"+url.Values{"next": {next}}.Encode())
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.Header().Get("Location")+"&user=ann", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	back, err := answer.Location()
	require.NoError(t, err)
	require.Equal(t, "http://example.com/ui/callback", back.Scheme+"://"+back.Host+back.Path)
	return back.RequestURI()
}

// A person who signs in with the provider gets the page that was asked for, but no page of another site. Only the cookie of
// the sign-in is sent when the provider sends the browser back. Scripts can read none of the cookies.
func TestSignInWithAProvider(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	require.Contains(t, p.load(t, http.MethodGet, "/ui/sign-in?next=queues").Body.String(), `href="provider?next=queues"`)
	for next, want := range map[string]string{
		"queues?name=x": "queues?name=x", "": "./", "https://evil.example/": "./", "//evil.example": "./", "/queues": "./", "javascript:1": "./", "../x": "./",
	} {
		back := p.atProvider(t, next)
		flow := p.cookies["belfry_sign_in"]
		require.Equal(t, []any{http.SameSiteLaxMode, true, 600, ""}, []any{flow.SameSite, flow.HttpOnly, flow.MaxAge, flow.Path})
		w := p.load(t, http.MethodGet, back)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, "0; url="+want, w.Header().Get("Refresh"))
		require.NotContains(t, p.cookies, "belfry_sign_in")
		for _, name := range []string{"belfry_token", "belfry_provider"} {
			require.Equal(t, []any{http.SameSiteStrictMode, true}, []any{p.cookies[name].SameSite, p.cookies[name].HttpOnly}, name)
		}
		w = p.load(t, http.MethodGet, "/ui/")
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), `<bdi>ann</bdi> <span class="tag">admin</span>`)
		require.Equal(t, http.StatusForbidden, p.load(t, http.MethodGet, back).Code, "the address works once")
	}
}

// A sign-in that fails leads to a page that says why. A person can paste a token there.
func TestAFailedSignInSaysWhy(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	back := p.atProvider(t, "queues")
	for path, want := range map[string]string{
		strings.Replace(back, "state=", "state=x", 1): "another sign-in",
		back + "&error=access_denied":                 "denied access",
		back + "&iss=https%3A%2F%2Fevil.example":      "another identity provider",
	} {
		w := p.load(t, http.MethodGet, path)
		require.Equal(t, http.StatusForbidden, w.Code, path)
		require.Contains(t, w.Body.String(), want)
		require.Contains(t, w.Body.String(), `name="token"`)
		require.NotContains(t, p.cookies, "belfry_token")
	}
	p.remote.Edit(func(s *openid.Settings) { s.Access = map[string]any{"aud": "other"} })
	require.Contains(t, p.load(t, http.MethodGet, back).Body.String(), "Invalid token audience")

	down := newPerson(t)
	down.remote.Edit(func(s *openid.Settings) { s.Down = true })
	w := down.load(t, http.MethodGet, "/ui/provider?next=queues")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "does not answer. Try again, or paste a token.")
	require.Contains(t, w.Body.String(), `name="next" value="queues"`)
	require.Contains(t, w.Body.String(), `name="token"`)
}

// When the token of a session has expired, the next page gets a new one. While the provider is down, the session waits for
// the provider. When the provider ends the session, the person must sign in again.
func TestASessionIsRefreshed(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.load(t, http.MethodGet, p.atProvider(t, ""))
	old := p.cookies["belfry_token"].Value
	delete(p.cookies, "belfry_token") // as the browser does when the token expires
	p.remote.Edit(func(s *openid.Settings) { s.Down = true })
	require.Equal(t, http.StatusSeeOther, p.load(t, http.MethodGet, "/ui/queues").Code)
	require.Contains(t, p.load(t, http.MethodGet, "/ui/sign-in").Body.String(), "does not answer")
	require.Contains(t, p.cookies, "belfry_provider")

	p.remote.Edit(func(s *openid.Settings) { s.Down = false })
	require.Equal(t, http.StatusUnauthorized, p.load(t, http.MethodGet, "/ui/live").Code, "a stream cannot set cookies for its page")
	w := p.load(t, http.MethodGet, "/ui/queues", func(r *http.Request) { r.Header.Set("X-Live", "1") })
	require.Equal(t, http.StatusOK, w.Code)
	require.NotEqual(t, old, p.cookies["belfry_token"].Value)
	require.Equal(t, "Bearer "+p.cookies["belfry_token"].Value, p.api.token.Load())

	p.remote.Edit(func(s *openid.Settings) { s.Access = map[string]any{"exp": time.Now().Add(-time.Hour).Unix()} })
	delete(p.cookies, "belfry_token")
	require.Equal(t, http.StatusSeeOther, p.load(t, http.MethodGet, "/ui/queues").Code)
	require.NotContains(t, p.cookies, "belfry_provider")
	require.NotContains(t, p.cookies, "belfry_token")
}

// A token that is not valid, for example because it is revoked, is not replaced by a new one.
func TestAnInvalidTokenIsNotRefreshed(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.load(t, http.MethodGet, p.atProvider(t, ""))
	p.cookies["belfry_token"].Value += "x"
	require.Equal(t, http.StatusSeeOther, p.load(t, http.MethodGet, "/ui/queues").Code)
	require.NotContains(t, p.cookies, "belfry_provider")
	require.Equal(t, 1, p.remote.Exchanges())
}

// After signing out, the browser goes to the provider, which ends its session too. If the provider cannot do this, only the
// session of the dashboard ends.
func TestSignOutWithAProvider(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.load(t, http.MethodGet, p.atProvider(t, ""))
	w := p.load(t, http.MethodPost, "/ui/sign-out")
	require.Regexp(t, `^0; url=`+p.remote.URL+`/end\?`, w.Header().Get("Refresh"))
	require.Contains(t, w.Header().Get("Refresh"), url.QueryEscape("http://example.com/ui/sign-in"))
	require.Empty(t, p.cookies)

	p = newPerson(t)
	p.remote.Edit(func(s *openid.Settings) { s.NoEnd = true })
	p.load(t, http.MethodGet, p.atProvider(t, ""))
	w = p.load(t, http.MethodPost, "/ui/sign-out")
	require.Equal(t, "sign-in", w.Header().Get("Location"))
	require.Empty(t, p.cookies)
}

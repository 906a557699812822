package provider_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/provider"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/openid"
)

const callback = "https://belfry.example/ui/callback"

// revoked has the ids of revoked tokens.
type revoked struct{ sync.Map }

func (r *revoked) Revoked(id string) bool {
	_, is := r.Load(id)
	return is
}

func (*revoked) NextRevocation() <-chan struct{} { return nil }

// setup is an instance with an identity provider.
type setup struct {
	*provider.Provider
	remote  *openid.Provider
	revoked *revoked
	cfg     token.Config
}

func start(t *testing.T, edits ...func(*token.Config)) setup {
	t.Helper()
	s := setup{remote: openid.Start(t), revoked: &revoked{}, cfg: token.DefaultConfig()}
	s.cfg.Enabled, s.cfg.Algorithm, s.cfg.Issuer, s.cfg.Audience = true, token.RS256, s.remote.URL, "belfry"
	s.cfg.JWKSURL, s.cfg.ClientID, s.cfg.ClientSecret = s.remote.URL+"/keys", openid.ClientID, openid.ClientSecret
	for _, edit := range edits {
		edit(&s.cfg)
	}
	require.NoError(t, s.cfg.Validate())
	s.Provider = s.instance(t)
	return s
}

// instance returns another instance with the same configuration.
func (s setup) instance(t *testing.T) *provider.Provider {
	t.Helper()
	verifier, err := token.New(t.Context(), s.cfg, s.revoked, zap.NewNop())
	require.NoError(t, err)
	p, err := provider.New(s.cfg, verifier, zap.NewNop())
	require.NoError(t, err)
	return p
}

// begin begins a sign-in and returns the cookie and the answer of the provider.
func (s setup) begin(t *testing.T) (cookie string, answer url.Values) {
	t.Helper()
	to, cookie, err := s.Begin(t.Context(), callback, "queues?name=a")
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to+"&user=ann", http.NoBody)
	require.NoError(t, err)
	got, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	back, err := got.Location()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(back.String(), callback+"?"), back)
	return cookie, back.Query()
}

// signIn returns the session of a whole sign-in.
func (s setup) signIn(t *testing.T) (*provider.Session, error) {
	t.Helper()
	cookie, answer := s.begin(t)
	session, next, err := s.Finish(t.Context(), cookie, answer)
	require.Equal(t, "queues?name=a", next)
	return session, err
}

// Any instance can finish a sign-in that another instance has begun. The role comes from the claims of the access token.
func TestAnyInstanceFinishesASignIn(t *testing.T) {
	t.Parallel()
	s := start(t)
	cookie, answer := s.begin(t)
	for _, secret := range []string{answer.Get("state"), "queues", callback} {
		require.NotContains(t, cookie, secret, "the cookie is sealed")
	}
	session, next, err := s.instance(t).Finish(t.Context(), cookie, answer)
	require.NoError(t, err)
	require.Equal(t, "queues?name=a", next)
	require.Equal(t, identity.Admin, session.Principal.Role)
	require.Equal(t, "ann", session.Principal.Subject)
	require.LessOrEqual(t, len(session.Cookie), provider.MaxCookie)
}

// Finish requests no token for an answer that does not belong to the sign-in of the browser.
func TestForeignAnswersAreRefusedBeforeTheExchange(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.remote.Edit(func(set *openid.Settings) { set.NamesIssuer = true })
	for name, c := range map[string]struct {
		edit func(cookie *string, answer url.Values)
		text string
	}{
		"another state":       {func(_ *string, a url.Values) { a.Set("state", "other") }, "another sign-in"},
		"no state":            {func(_ *string, a url.Values) { a.Del("state") }, "another sign-in"},
		"no cookie":           {func(c *string, _ url.Values) { *c = "" }, "begun no sign-in"},
		"a changed cookie":    {func(c *string, _ url.Values) { *c = "AAAA" + (*c)[4:] }, "auth.client_secret"},
		"too late":            {func(c *string, _ url.Values) { *c = s.Aged(*c, provider.FlowAge+time.Second) }, "longer than 10 minutes"},
		"no base64":           {func(c *string, _ url.Values) { *c = "!" }, "auth.client_secret"},
		"another issuer":      {func(_ *string, a url.Values) { a.Set("iss", "https://evil.example") }, "another identity provider"},
		"a missing issuer":    {func(_ *string, a url.Values) { a.Del("iss") }, "another identity provider"},
		"access denied":       {func(_ *string, a url.Values) { a.Set("error", "access_denied") }, "denied access"},
		"an error":            {func(_ *string, a url.Values) { a.Set("error", "server_error") }, `"server_error"`},
		"no code":             {func(_ *string, a url.Values) { a.Del("code") }, "no code"},
		"a cookie of another": {func(c *string, _ url.Values) { *c, _ = s.begin(t) }, "another sign-in"},
	} {
		cookie, answer := s.begin(t)
		c.edit(&cookie, answer)
		_, _, err := s.Finish(t.Context(), cookie, answer)
		require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(err), name)
		require.ErrorContains(t, err, c.text, name)
	}
	require.Zero(t, s.remote.Exchanges())
}

// A code works once, and only with the verifier of its own sign-in.
func TestACodeIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	cookie, answer := s.begin(t)
	_, _, err := s.Finish(t.Context(), cookie, answer)
	require.NoError(t, err)
	_, _, err = s.Finish(t.Context(), cookie, answer)
	require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(err))
	require.ErrorContains(t, err, "used already")

	cookie, answer = s.begin(t)
	_, stolen := s.begin(t)
	answer.Set("code", stolen.Get("code"))
	_, _, err = s.Finish(t.Context(), cookie, answer)
	require.ErrorContains(t, err, "refused the code")
	require.Equal(t, 1, s.remote.Exchanges())
}

// Finish refuses an ID token that is not for this sign-in, this client or this provider.
func TestInvalidIDTokensAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, c := range map[string]struct {
		claims map[string]any
		text   string
	}{
		"nonce":       {map[string]any{"nonce": "other"}, "another sign-in"},
		"no nonce":    {map[string]any{"nonce": nil}, "another sign-in"},
		"audience":    {map[string]any{"aud": "other"}, "not valid"},
		"party":       {map[string]any{"aud": []string{openid.ClientID, "other"}, "azp": "other"}, "another client"},
		"issuer":      {map[string]any{"iss": "https://evil.example"}, "not valid"},
		"expired":     {map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}, "not valid"},
		"access hash": {map[string]any{"at_hash": "other"}, "access token"},
	} {
		s.remote.Edit(func(set *openid.Settings) { set.ID = c.claims })
		_, err := s.signIn(t)
		require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(err), name)
		require.ErrorContains(t, err, c.text, name)
	}
	expired := time.Now().Add(-s.cfg.ClockSkew / 2).Unix()
	s.remote.Edit(func(set *openid.Settings) {
		set.ID, set.Access = map[string]any{"exp": expired}, map[string]any{"exp": expired}
	})
	_, err := s.signIn(t)
	require.NoError(t, err, "clocks may differ by auth.clock_skew")
}

// The session has the access token, or the ID token if the verifier does not accept the access token or only the ID token
// has a role. The verifier refuses both if their audience is not auth.audience.
func TestTheTokenOfASession(t *testing.T) {
	t.Parallel()
	s := start(t)
	role := map[string]any{"roles": []string{"read-only"}, "aud": []string{openid.ClientID, "belfry"}, "azp": openid.ClientID}
	for name, c := range map[string]struct {
		set  openid.Settings
		want identity.Role
	}{
		"both":                  {openid.Settings{ID: role}, identity.Admin},
		"opaque":                {openid.Settings{ID: role, Opaque: true}, identity.ReadOnly},
		"access without a role": {openid.Settings{ID: role, Access: map[string]any{"roles": nil}}, identity.ReadOnly},
		"no role":               {openid.Settings{Access: map[string]any{"roles": nil}}, identity.NoRole},
	} {
		s.remote.Edit(func(set *openid.Settings) { *set = c.set })
		session, err := s.signIn(t)
		require.NoError(t, err, name)
		require.Equal(t, c.want, session.Principal.Role, name)
	}
	s.remote.Edit(func(set *openid.Settings) { *set = openid.Settings{Access: map[string]any{"aud": "other"}} })
	_, err := s.signIn(t)
	require.ErrorContains(t, err, "Invalid token audience")
	s.remote.Edit(func(set *openid.Settings) {
		*set = openid.Settings{Access: map[string]any{"x": strings.Repeat("x", 4000)}}
	})
	_, err = s.signIn(t)
	require.ErrorContains(t, err, "too long for a cookie")
}

// A refresh replaces an expired token. Requests with the same refresh token share one refresh. A revoked token is never
// replaced, and the person stays the same.
func TestRefresh(t *testing.T) {
	t.Parallel()
	s := start(t)
	session, err := s.signIn(t)
	require.NoError(t, err)
	var work sync.WaitGroup
	fresh := make([]*provider.Session, 20)
	for i := range fresh {
		work.Go(func() { fresh[i], _ = s.Refresh(t.Context(), session.Cookie) })
	}
	work.Wait()
	for _, one := range fresh {
		require.NotNil(t, one)
		require.Equal(t, fresh[0].Token, one.Token)
	}
	require.NotEqual(t, session.Token, fresh[0].Token)
	require.Equal(t, 2, s.remote.Exchanges())

	s.remote.Edit(func(set *openid.Settings) { set.Access = map[string]any{"sub": "bob"} })
	_, err = s.Refresh(t.Context(), fresh[0].Cookie)
	require.ErrorContains(t, err, "another person")
	_, err = s.Refresh(t.Context(), fresh[0].Cookie)
	require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(err), "the provider accepts a refresh token once")

	s.remote.Edit(func(set *openid.Settings) { *set = openid.Settings{} })
	session, err = s.signIn(t)
	require.NoError(t, err)
	s.revoked.Store(session.Principal.TokenID, true)
	_, err = s.Refresh(t.Context(), session.Cookie)
	require.ErrorContains(t, err, "revoked")
	_, err = s.Refresh(t.Context(), "other")
	require.Equal(t, queue.CodeUnauthenticated, queue.CodeOf(err))

	s.remote.Edit(func(set *openid.Settings) { set.NoRefresh = true })
	session, err = s.signIn(t)
	require.NoError(t, err)
	_, err = s.Refresh(t.Context(), session.Cookie)
	require.ErrorContains(t, err, "ended")
}

// EndURL returns the URL of the provider with the ID token, or nothing if the provider cannot end sessions.
func TestEndURL(t *testing.T) {
	t.Parallel()
	s := start(t)
	session, err := s.signIn(t)
	require.NoError(t, err)
	text, err := s.EndURL(t.Context(), session.Cookie, "https://belfry.example/ui/sign-in")
	require.NoError(t, err)
	to, err := url.Parse(text)
	require.NoError(t, err)
	require.Equal(t, s.remote.URL+"/end", "http://"+to.Host+to.Path)
	require.Equal(t, "https://belfry.example/ui/sign-in", to.Query().Get("post_logout_redirect_uri"))
	require.NotEmpty(t, to.Query().Get("id_token_hint"))

	s.cfg.RedirectURL = "https://ops.example/belfry/ui/callback"
	text, err = s.instance(t).EndURL(t.Context(), session.Cookie, "")
	require.NoError(t, err)
	require.Contains(t, text, url.QueryEscape("https://ops.example/belfry/ui/sign-in"))

	s.remote.Edit(func(set *openid.Settings) { set.NoEnd = true })
	text, err = s.instance(t).EndURL(t.Context(), session.Cookie, "")
	require.NoError(t, err)
	require.Empty(t, text)
}

// While the provider is down, a sign-in and a refresh return CodeUnavailable. They work as soon as the provider answers.
func TestTheProviderIsDown(t *testing.T) {
	t.Parallel()
	s := start(t)
	session, err := s.signIn(t)
	require.NoError(t, err)
	s.remote.Edit(func(set *openid.Settings) { set.Down = true })
	_, _, err = s.instance(t).Begin(t.Context(), callback, "")
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.ErrorContains(t, err, "does not answer")
	_, err = s.Refresh(t.Context(), session.Cookie)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	s.remote.Edit(func(set *openid.Settings) { set.Down = false })
	_, err = s.Refresh(t.Context(), session.Cookie)
	require.NoError(t, err)
}

// A provider with another name than auth.issuer is refused.
func TestAProviderWithAnotherName(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"issuer": "https://evil.example"}`))
	}))
	t.Cleanup(other.Close)
	s.cfg.Issuer = other.URL
	_, _, err := s.instance(t).Begin(t.Context(), callback, "")
	require.ErrorContains(t, err, "auth.issuer")
}

// Package openid is an identity provider for tests. It implements the authorization code flow of OpenID Connect with PKCE,
// refresh tokens and the end of a session.
package openid

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// The client that the provider knows.
const (
	ClientID     = "belfry-dashboard"
	ClientSecret = "secret of the dashboard"
)

// Provider is a running provider. Set its fields with Edit.
type Provider struct {
	URL string

	key *rsa.PrivateKey
	mu  sync.Mutex
	set Settings
	// codes and refreshes have the answers to codes and refresh tokens that were not used yet.
	codes     map[string]code
	refreshes map[string]bool
	exchanges int
	ended     []url.Values
}

// Settings say how the provider behaves.
type Settings struct {
	// Down is true if each answer is 503.
	Down bool
	// NoRefresh is true if the provider returns no refresh tokens. NoEnd is true if it cannot end sessions.
	NoRefresh, NoEnd bool
	// NamesIssuer is true if the provider names itself in the answer (RFC 9207).
	NamesIssuer bool
	// Opaque is true if access tokens are no JSON Web Tokens.
	Opaque bool
	// Claims replace claims of the ID token and of the access token. A nil value removes the claim.
	ID, Access map[string]any
}

// code is a code that was not used yet.
type code struct{ challenge, nonce, redirect string }

// Start starts a provider. It stops at the end of t. Its host is localhost, so that it is another site than 127.0.0.1 for
// browsers.
func Start(t *testing.T) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &Provider{key: key, codes: map[string]code{}, refreshes: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("/keys", p.keys)
	mux.HandleFunc("/authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("/end", p.end)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.settings().Down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	return p
}

// Edit changes the settings.
func (p *Provider) Edit(edit func(s *Settings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	edit(&p.set)
}

func (p *Provider) settings() Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set
}

// Exchanges returns how many codes and refresh tokens the provider has accepted.
func (p *Provider) Exchanges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exchanges
}

// Ended returns the queries of the requests that ended sessions.
func (p *Provider) Ended() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	s := p.settings()
	found := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": s.NamesIssuer,
	}
	if !s.NoEnd {
		found["end_session_endpoint"] = p.URL + "/end"
	}
	answer(w, http.StatusOK, found)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "one", "n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// authorize shows a page with a button for a browser. The query user=NAME, which the button sends, signs the person in.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("user") == "" {
		query.Set("user", "ann")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>Provider</title><a href="authorize?%s">Continue as ann</a>`, html.EscapeString(query.Encode()))
		return
	}
	to, err := url.Parse(query.Get("redirect_uri"))
	if err != nil || query.Get("client_id") != ClientID || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" {
		http.Error(w, "the request is not valid", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {query.Get("state")}}
	p.mu.Lock()
	text := rand.Text()
	p.codes[text] = code{challenge: query.Get("code_challenge"), nonce: query.Get("nonce"), redirect: query.Get("redirect_uri")}
	names := p.set.NamesIssuer
	p.mu.Unlock()
	back.Set("code", text)
	if names {
		back.Set("iss", p.URL)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

// token exchanges a code or a refresh token. Each is accepted once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	if plain, err := url.QueryUnescape(secret); err != nil || id != ClientID || plain != ClientSecret {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	nonce, valid := "", false
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		var known code
		known, valid = p.codes[r.PostFormValue("code")]
		delete(p.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		valid = valid && base64.RawURLEncoding.EncodeToString(sum[:]) == known.challenge && r.PostFormValue("redirect_uri") == known.redirect
		nonce = known.nonce
	case "refresh_token":
		valid = p.refreshes[r.PostFormValue("refresh_token")]
		delete(p.refreshes, r.PostFormValue("refresh_token"))
	}
	if !valid {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	p.exchanges++
	found := map[string]any{"token_type": "Bearer", "expires_in": 300, "id_token": p.sign(map[string]any{"aud": ClientID, "nonce": nonce}, p.set.ID)}
	found["access_token"] = p.sign(map[string]any{"aud": "belfry", "roles": []string{"admin"}}, p.set.Access)
	if p.set.Opaque {
		found["access_token"] = rand.Text()
	}
	if !p.set.NoRefresh {
		text := rand.Text()
		p.refreshes[text] = true
		found["refresh_token"] = text
	}
	answer(w, http.StatusOK, found)
}

// sign returns a token for ann with claims. mu is locked.
func (p *Provider) sign(claims, replaced map[string]any) string {
	now := time.Now()
	all := jwt.MapClaims{"iss": p.URL, "sub": "ann", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": rand.Text()}
	maps.Copy(all, claims)
	maps.Copy(all, replaced)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, all)
	t.Header["kid"] = "one"
	text, err := t.SignedString(p.key)
	if err != nil {
		panic(err)
	}
	return text
}

// end ends the session of a person.
func (p *Provider) end(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.ended = append(p.ended, r.URL.Query())
	p.mu.Unlock()
	http.Redirect(w, r, r.URL.Query().Get("post_logout_redirect_uri"), http.StatusFound)
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

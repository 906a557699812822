package provider

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// MaxCookie is the maximum size of the value of a cookie in bytes. Browsers drop larger cookies.
	MaxCookie = 3800
	// refreshAge is how long the result of a refresh is used for further requests with the same refresh token. A browser
	// sends such requests while it does not have the new cookies.
	refreshAge = time.Minute
	// maxRefreshes is the maximum number of kept results.
	maxRefreshes = 10_000
)

// Session is the session of a person who has signed in with the provider.
type Session struct {
	// Token is the token that the verifier has accepted. Principal belongs to it.
	Token     string
	Principal *identity.Principal
	// Cookie is the value of a cookie for Refresh and EndURL.
	Cookie string
}

// kept has the values of a session beside its token. It is in a sealed cookie of the browser.
type kept struct {
	Refresh string `json:"r,omitempty"`
	ID      string `json:"i,omitempty"` // the ID token
	Subject string `json:"s"`
	TokenID string `json:"t,omitempty"` // the id of the token of the session
}

// session returns the session of a person. id is the ID token. After a refresh it may be empty, and hint is an earlier ID token. The token of the session
// is the first one that the verifier accepts and that has a role, of the access token and the ID token. If none has a role,
// it is the first one that the verifier accepts. Errors: CodeUnauthenticated, CodeUnavailable.
func (p *Provider) session(ctx context.Context, got *oauth2.Token, id, hint string) (*Session, error) {
	var chosen *Session
	var refusal error
	for _, text := range []string{got.AccessToken, id} {
		if text == "" || chosen != nil && chosen.Principal.Role != identity.NoRole {
			continue
		}
		principal, err := p.verifier.Verify(ctx, text)
		switch {
		case queue.CodeOf(err) == queue.CodeUnavailable:
			return nil, err
		case err != nil:
			refusal = cmp.Or(refusal, err)
		case len(text) > MaxCookie:
			refusal = cmp.Or(refusal, refused("the token of the identity provider is too long for a cookie: let the provider add fewer claims", nil))
		case chosen == nil || principal.Role != identity.NoRole:
			chosen = &Session{Token: text, Principal: principal}
		}
	}
	if chosen == nil {
		return nil, refused("Belfry does not accept the tokens of the identity provider ("+textOf(refusal)+"): check auth.audience and auth.jwks_url", refusal)
	}
	k := kept{Refresh: got.RefreshToken, ID: cmp.Or(id, hint), Subject: chosen.Principal.Subject, TokenID: chosen.Principal.TokenID}
	var err error
	for _, drop := range []func(){func() {}, func() { k.ID = "" }, func() { k.Refresh = "" }} { // until the cookie is not too large
		drop()
		if chosen.Cookie, err = p.sessions.seal(k); err != nil || len(chosen.Cookie) <= MaxCookie {
			break
		}
	}
	return chosen, err
}

// textOf returns the text of an error for a person.
func textOf(err error) string {
	if coded, ok := err.(*queue.Error); ok { //nolint:errorlint // the verifier returns it unwrapped
		return coded.Message
	}
	return "the provider has returned no token"
}

// Refresh returns a new session for one whose token has expired. cookie comes from Session. Errors: CodeUnauthenticated if the
// person must sign in again, CodeUnavailable if the provider does not answer, CodeOverloaded.
func (p *Provider) Refresh(ctx context.Context, cookie string) (*Session, error) {
	var k kept
	if err := p.sessions.open(cookie, &k); err != nil {
		return nil, refused(errSeal.Error(), err)
	}
	if k.Refresh == "" {
		return nil, refused("the session has ended", nil)
	}
	if p.verifier.IsRevoked(k.TokenID) {
		return nil, refused("Token has been revoked", nil)
	}
	return p.refreshes.once(ctx, sha256.Sum256([]byte(k.Refresh)), func() (*Session, error) {
		return p.refresh(context.WithoutCancel(ctx), k) // another request may wait for the result; call bounds the time
	})
}

// refresh requests a new token for a session.
func (p *Provider) refresh(ctx context.Context, k kept) (*Session, error) {
	ctx, end, err := p.call(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	m, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	got, err := p.oauth(m, "").TokenSource(ctx, &oauth2.Token{RefreshToken: k.Refresh}).Token()
	if err != nil {
		return nil, p.refusedToken("refreshing a session", err)
	}
	text, _ := got.Extra("id_token").(string)
	if text != "" {
		if _, err := p.verifyID(ctx, m, text); err != nil {
			return nil, err
		}
	}
	s, err := p.session(ctx, got, text, k.ID)
	if err == nil && s.Principal.Subject != k.Subject {
		return nil, refused("the identity provider has returned a token of another person", nil)
	}
	return s, err
}

// EndURL returns the URL at which the provider ends its session of the person. If the provider has no such URL, EndURL returns
// "". cookie comes from Session. The provider then sends the browser to back. If auth.redirect_url is set, it sends the browser
// to the sign-in page beside that URL instead. Errors: CodeUnavailable if the provider does not answer,
// CodeOverloaded.
func (p *Provider) EndURL(ctx context.Context, cookie, back string) (string, error) {
	var k kept
	if p.sessions.open(cookie, &k) != nil {
		return "", nil
	}
	ctx, end, err := p.call(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	m, err := p.discover(ctx)
	if err != nil || m.EndSession == "" {
		return "", err
	}
	to, err := url.Parse(m.EndSession)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" {
		return "", p.unavailable("reading end_session_endpoint", err)
	}
	if p.cfg.RedirectURL != "" {
		back = strings.TrimSuffix(p.cfg.RedirectURL, "callback") + "sign-in"
	}
	query := to.Query()
	query.Set("client_id", p.cfg.ClientID)
	query.Set("post_logout_redirect_uri", back)
	if k.ID != "" {
		query.Set("id_token_hint", k.ID)
	}
	to.RawQuery = query.Encode()
	return to.String(), nil
}

// refreshes has the results of refreshes, by the hash of the refresh token. A provider may accept a refresh token only
// once, so requests with the same refresh token share one refresh.
type refreshes struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]*refreshed
}

// refreshed is a refresh. When done is closed, session and err have its result.
type refreshed struct {
	done    chan struct{}
	begunAt time.Time
	session *Session
	err     error
}

// once returns the result of refresh, or of an earlier call for the same key. It blocks until the result is known or ctx
// ends. Only results without an error are kept.
func (all *refreshes) once(ctx context.Context, key [sha256.Size]byte, refresh func() (*Session, error)) (*Session, error) {
	all.mu.Lock()
	known := all.kept[key]
	if known != nil && time.Since(known.begunAt) < refreshAge {
		all.mu.Unlock()
		select {
		case <-known.done:
			return known.session, known.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	own := &refreshed{done: make(chan struct{}), begunAt: time.Now()}
	all.removeOld()
	all.kept[key] = own
	all.mu.Unlock()
	own.session, own.err = refresh()
	close(own.done)
	if own.err != nil {
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.kept[key] == own {
			delete(all.kept, key)
		}
	}
	return own.session, own.err
}

// removeOld removes the results that are no longer used. It removes all results if there are maxRefreshes. mu is locked.
func (all *refreshes) removeOld() {
	if all.kept == nil || len(all.kept) >= maxRefreshes {
		all.kept = map[[sha256.Size]byte]*refreshed{}
	}
	for key, one := range all.kept {
		if time.Since(one.begunAt) >= refreshAge {
			delete(all.kept, key)
		}
	}
}

package dashboard

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/provider"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// flowCookie has the values of a sign-in at the provider that has begun. providerCookie has the refresh token of a
	// session that a provider has begun. Both are sealed.
	flowCookie, providerCookie = "belfry_sign_in", "belfry_provider"
	// callback is the path to which the provider sends the browser back.
	callback = "callback"
)

// Provider signs people in with an identity provider. *provider.Provider implements it.
type Provider interface {
	// Issuer returns the URL of the provider.
	Issuer() string
	// Begin returns the URL to which the browser goes, and the value of a cookie for Finish.
	Begin(ctx context.Context, redirect, next string) (to, cookie string, err error)
	// Finish returns the session of the person who has signed in, and the text next of Begin.
	Finish(ctx context.Context, cookie string, answer url.Values) (s *provider.Session, next string, err error)
	// Refresh returns a new session for one whose token has expired.
	Refresh(ctx context.Context, cookie string) (*provider.Session, error)
	// EndURL returns the URL at which the provider ends its session of the person, or "".
	EndURL(ctx context.Context, cookie, back string) (string, error)
}

// beginSignIn serves GET provider: it sends the browser to the provider. A link leads here and not a form, because the
// policy of the pages allows no form that leads to another site.
func (d *Dashboard) beginSignIn(w http.ResponseWriter, r *http.Request) {
	if d.deps.Provider == nil || d.deps.Auth == nil {
		redirect(w, "sign-in")
		return
	}
	next := d.local(r.URL.Query().Get("next"))
	to, value, err := d.deps.Provider.Begin(r.Context(), base(r)+prefix+callback, next)
	if err != nil {
		d.refuseSignIn(w, next, err)
		return
	}
	cookie := newCookie(r, flowCookie, value)
	cookie.MaxAge = int(provider.FlowAge.Seconds())
	// The browser must send the cookie when the provider sends the browser back.
	cookie.SameSite = http.SameSiteLaxMode
	http.SetCookie(w, cookie)
	redirect(w, to)
}

// endSignIn serves GET callback: it begins the session of a person whom the provider has sent back. Its answer is a page
// that loads the next page, and not a redirect: after a redirect of another site, the browser would not send the
// cookie of the session.
func (d *Dashboard) endSignIn(w http.ResponseWriter, r *http.Request) {
	if d.deps.Provider == nil || d.deps.Auth == nil {
		redirect(w, "sign-in")
		return
	}
	value := ""
	if cookie, err := r.Cookie(flowCookie); err == nil {
		value = cookie.Value
	}
	s, next, err := d.deps.Provider.Finish(r.Context(), value, r.URL.Query())
	next = d.local(next)
	if err != nil {
		d.refuseSignIn(w, next, err)
		return
	}
	dropCookie(w, r, flowCookie)
	d.startSession(w, r, s)
	if next == "" {
		next = "./"
	}
	d.onward(w, next, "You are signed in", "The dashboard opens the page that you asked for.")
}

// startSession sets the cookies of a session that the provider has begun.
func (d *Dashboard) startSession(w http.ResponseWriter, r *http.Request, s *provider.Session) {
	http.SetCookie(w, untilEnd(newCookie(r, tokenCookie, s.Token), s.Principal.ExpiresAt))
	http.SetCookie(w, newCookie(r, providerCookie, s.Cookie))
	http.SetCookie(w, newCookie(r, sessionCookie, "1"))
}

// untilEnd sets the lifetime of a cookie with a token. The zero time means until the browser is closed. Browsers use MaxAge,
// which does not depend on their clocks.
func untilEnd(cookie *http.Cookie, end time.Time) *http.Cookie {
	if !end.IsZero() {
		cookie.Expires, cookie.MaxAge = end, max(1, int(time.Until(end).Seconds()))
	}
	return cookie
}

// session returns the caller of a request, like caller. If the token has expired and the provider has begun the session, it
// requests a new token, and sets the cookies of w.
func (d *Dashboard) session(w http.ResponseWriter, r *http.Request) (*source.Caller, error) {
	c, err := d.caller(r)
	cookie, noCookie := r.Cookie(providerCookie)
	if err == nil || noCookie != nil || d.deps.Provider == nil || d.deps.Auth == nil {
		return c, err
	}
	if err != errNoToken && !token.IsExpired(err) { //nolint:errorlint // caller returns errNoToken unwrapped
		dropCookie(w, r, providerCookie) // for example, the token is revoked
		return c, err
	}
	s, err := d.deps.Provider.Refresh(r.Context(), cookie.Value)
	switch {
	case err == nil:
		d.startSession(w, r, s)
		return &source.Caller{Request: r, Token: s.Token, Principal: s.Principal}, nil
	case queue.CodeOf(err) == queue.CodeUnauthenticated:
		dropCookie(w, r, providerCookie)
	}
	return nil, err
}

// signOut ends the session. The token stays valid until its end, or until `belfry token revoke`. If the provider has
// begun the session and can end its own session, the browser goes to the provider, which sends it back to the sign-in page.
func (d *Dashboard) signOut(w http.ResponseWriter, r *http.Request) {
	dropCookie(w, r, tokenCookie)
	dropCookie(w, r, sessionCookie)
	cookie, err := r.Cookie(providerCookie)
	if err != nil || d.deps.Provider == nil {
		redirect(w, "sign-in")
		return
	}
	dropCookie(w, r, providerCookie)
	to, err := d.deps.Provider.EndURL(r.Context(), cookie.Value, base(r)+prefix+"sign-in")
	switch {
	case err != nil:
		setNotice(w, r, "You are signed out of the dashboard, but not of the identity provider: "+errorText(err)+".", true)
		redirect(w, "sign-in")
	case to == "":
		redirect(w, "sign-in")
	default: // a page, because the policy of the pages allows no form that leads to another site
		d.onward(w, to, "You are signed out of the dashboard", "The identity provider ends its session now.")
	}
}

// onward serves a page that loads the page at a URL.
func (d *Dashboard) onward(w http.ResponseWriter, to, title, text string) {
	w.Header().Set("Refresh", "0; url="+to)
	view := &page.View{Version: d.deps.Version, Now: time.Now(), Content: &page.Content{Title: title, Data: page.Onward{To: to, Text: text}}}
	d.render(w, http.StatusOK, func(b *bytes.Buffer) error { return d.pages.RenderOnward(b, view) })
}

// refuseSignIn serves the sign-in page with the reason why the sign-in with the provider has failed.
func (d *Dashboard) refuseSignIn(w http.ResponseWriter, next string, err error) {
	view, status := d.signInView(next), http.StatusForbidden
	view.Notice, view.Failed = "Signing in failed: "+strings.TrimSuffix(errorText(err), ".")+". Try again, or paste a token.", true
	if code := queue.CodeOf(err); code == queue.CodeUnavailable || code == queue.CodeOverloaded {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	d.render(w, status, func(b *bytes.Buffer) error { return d.pages.RenderSignIn(b, view) })
}

// signInView returns the view of the sign-in page.
func (d *Dashboard) signInView(next string) *page.View {
	data := page.SignIn{Next: next}
	if d.deps.Provider != nil {
		data.Provider = d.deps.Provider.Issuer()
		if u, err := url.Parse(data.Provider); err == nil {
			data.Provider = u.Host
		}
	}
	return &page.View{Version: d.deps.Version, Now: time.Now(), Content: &page.Content{Title: "Sign in", Data: data}}
}

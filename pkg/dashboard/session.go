package dashboard

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/access/provider"
	"github.com/belfry-mq/belfry/pkg/access/token"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// tokenCookie has the token of a session. noticeCookie has the result of the last action.
	// sessionCookie stays when a browser drops the token at its end, so it tells an ended session from a first visit.
	tokenCookie, noticeCookie, sessionCookie = "belfry_token", "belfry_notice", "belfry_session"
	// maxToken is the maximum size of a token in bytes.
	maxToken = provider.MaxCookie
	// maxForm is the maximum size of a form in bytes. maxSignIn is the maximum size of the sign-in form, which needs no
	// session.
	maxForm, maxSignIn = 1 << 20, 16 << 10
	// noticeAge is how long the browser keeps the notice of an action.
	noticeAge = 30 * time.Second
)

var errNoToken = errors.New("sign in to see this page")

// caller returns the caller of a request. The principal comes from the token in the cookie, or without a cookie from the
// client certificate. An error says why the request has no caller.
func (d *Dashboard) caller(r *http.Request) (*source.Caller, error) {
	c := &source.Caller{Request: r, Principal: identity.From(r.Context())}
	if d.deps.Auth == nil {
		return c, identity.Valid(r.Context())
	}
	cookie, err := r.Cookie(tokenCookie)
	switch {
	case err == nil && cookie.Value != "":
		c.Token = cookie.Value
		c.Principal, err = d.deps.Auth.Verify(r.Context(), c.Token)
		return c, err
	case c.Principal == nil:
		return nil, errNoToken
	}
	return c, identity.Valid(r.Context())
}

// toSignIn sends a browser without a session to the sign-in page.
func (d *Dashboard) toSignIn(w http.ResponseWriter, r *http.Request, err error) {
	if r.Header.Get("X-Live") != "" {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	query := url.Values{}
	if next := strings.TrimPrefix(r.URL.RequestURI(), prefix); next != "" && d.local(next) != "" {
		query.Set("next", next)
	}
	if why := whySignIn(r, err); why != "" {
		setNotice(w, r, why, true)
	}
	dropCookie(w, r, sessionCookie)
	to := "sign-in"
	if len(query) > 0 {
		to += "?" + query.Encode()
	}
	redirect(w, to)
}

// whySignIn says why the sign-in page appears. It is empty at a first visit.
func whySignIn(r *http.Request, err error) string {
	_, never := r.Cookie(sessionCookie)
	switch {
	case token.IsExpired(err), errors.Is(err, errNoToken) && never == nil:
		return "Your session has run out. Sign in again."
	case errors.Is(err, errNoToken):
		return ""
	case queue.CodeOf(err) == queue.CodeUnauthenticated:
		return "Your token is not accepted any more: " + errorText(err) + ". Sign in with another one."
	}
	return sentence(errorText(err))
}

// sentence returns a text with a capital at its beginning and a full stop at its end.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// showSignIn serves the sign-in page.
func (d *Dashboard) showSignIn(w http.ResponseWriter, r *http.Request) {
	if d.deps.Auth == nil {
		redirect(w, "./")
		return
	}
	view := d.signInView(d.local(r.URL.Query().Get("next")))
	view.Notice, view.Failed = takeNotice(w, r)
	d.render(w, http.StatusOK, func(b *bytes.Buffer) error { return d.pages.RenderSignIn(b, view) })
}

// signIn starts a session with the token of the form.
func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	end, unread := d.readForm(w, r, maxSignIn)
	defer end()
	text, next := strings.TrimSpace(r.PostFormValue("token")), d.local(r.PostFormValue("next"))
	if d.deps.Auth == nil {
		redirect(w, "./")
		return
	}
	p, err := d.deps.Auth.Verify(r.Context(), text)
	switch {
	case unread != nil:
		err = unread
	case text == "":
		err = errors.New("paste a token")
	case len(text) > maxToken:
		err = errors.New("the token is too long for a cookie: use a token with fewer grants")
	}
	if err != nil {
		setNotice(w, r, "Signing in failed: "+errorText(err)+".", true)
		redirect(w, "sign-in?"+url.Values{"next": {next}}.Encode())
		return
	}
	http.SetCookie(w, untilEnd(newCookie(r, tokenCookie, text), p.ExpiresAt))
	http.SetCookie(w, newCookie(r, sessionCookie, "1"))
	dropCookie(w, r, providerCookie)
	if next == "" {
		next = "./"
	}
	redirect(w, next)
}

// newCookie returns a cookie that scripts cannot read and browsers do not send from other sites. It has no path, so
// the browser uses the folder of the dashboard, also if a proxy serves the dashboard under another path.
func newCookie(r *http.Request, name, value string) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, HttpOnly: true, Secure: isSecure(r), SameSite: http.SameSiteStrictMode}
}

func dropCookie(w http.ResponseWriter, r *http.Request, name string) {
	cookie := newCookie(r, name, "")
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
}

// isSecure reports whether the browser uses TLS. A client that forges X-Forwarded-Proto affects only its own cookies.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// setNotice keeps a text for the next page.
func setNotice(w http.ResponseWriter, r *http.Request, text string, failed bool) {
	kind := "+"
	if failed {
		kind = "-"
	}
	cookie := newCookie(r, noticeCookie, base64.RawURLEncoding.EncodeToString([]byte(kind+text[:min(len(text), 1000)])))
	cookie.MaxAge = int(noticeAge.Seconds())
	http.SetCookie(w, cookie)
}

// takeNotice returns the text that setNotice kept, and removes it.
func takeNotice(w http.ResponseWriter, r *http.Request) (text string, failed bool) {
	cookie, err := r.Cookie(noticeCookie)
	if err != nil {
		return "", false
	}
	dropCookie(w, r, noticeCookie)
	decoded, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(decoded) == 0 {
		return "", false
	}
	return string(decoded[1:]), decoded[0] == '-'
}

// local returns the text if the text is the path of a page of the dashboard. Otherwise it returns "".
func (d *Dashboard) local(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || d.pages.Find(strings.TrimPrefix(u.Path, "./")) == nil {
		return ""
	}
	if u.Path == "" {
		u.Path = "./"
	}
	return u.String()
}

// errorText returns the text of an error for a person.
func errorText(err error) string {
	var coded *queue.Error
	if errors.As(err, &coded) {
		return coded.Message
	}
	return err.Error()
}

package dashboard

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/dashboard/page"
	"github.com/belfry-mq/belfry/pkg/dashboard/pages"
	"github.com/belfry-mq/belfry/pkg/dashboard/schedules"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
)

// prefix is the path of the pages.
const prefix = "/ui/"

// policy is the content security policy of every page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Authenticator verifies tokens.
type Authenticator interface {
	// Verify returns the principal of a token, or an error that says why the token is not valid.
	Verify(ctx context.Context, token string) (*identity.Principal, error)
	// NextRevocation returns a channel that is closed when the process learns of another revoked token.
	NextRevocation() <-chan struct{}
}

// Deps are the dependencies of a Dashboard.
type Deps struct {
	// API serves the HTTP API of this process.
	API http.Handler
	// Auth verifies tokens. It is nil if the server requires no tokens.
	Auth Authenticator
	// Provider signs people in with an identity provider. It is nil if auth.client_id is empty.
	Provider Provider
	// Changes counts the changes after which pages may show other figures.
	Changes *source.Changes
	// Watch calls changed for each event of this and of other instances, until ctx ends. It also calls changed if it
	// may have missed an event. The Dashboard calls Watch while a page is open. If Watch returns an error, the
	// Dashboard calls it again after some seconds. If Watch is nil, the Dashboard uses only Changes.
	Watch   func(ctx context.Context, changed func()) error
	Version string
	Log     *zap.Logger
	// Memory bounds the bytes of all forms together (http.max_inflight_bytes). Nil sets no bound.
	Memory *inflight.Budget
}

// Dashboard serves the pages. It is an http.Handler.
type Dashboard struct {
	cfg     Config
	deps    Deps
	client  *source.Client
	pages   *page.Set
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	// epoch is a random text that marks the change ids of this process in the streams.
	epoch string
	// closed is closed by Close.
	closed chan struct{}
	close  sync.Once
	watch  watch
}

// New returns a Dashboard. An error means that a template is invalid.
func New(cfg Config, deps Deps) (*Dashboard, error) {
	if deps.Memory == nil {
		deps.Memory = inflight.NewBudget(math.MaxInt64, math.MaxInt64)
	}
	set, err := page.Parse(pages.List())
	if err != nil {
		return nil, err
	}
	d := &Dashboard{
		cfg: cfg, deps: deps, client: source.New(deps.API, deps.Changes), pages: set, mux: http.NewServeMux(),
		origins: http.NewCrossOriginProtection(), epoch: rand.Text(), closed: make(chan struct{}),
		watch: watch{next: make(chan struct{})},
	}
	d.mux.HandleFunc("GET "+prefix+"assets/{edition}/{name}", d.asset)
	d.mux.HandleFunc("GET "+prefix+"sign-in", d.showSignIn)
	d.mux.HandleFunc("POST "+prefix+"sign-in", d.signIn)
	d.mux.HandleFunc("POST "+prefix+"sign-out", d.signOut)
	d.mux.HandleFunc("GET "+prefix+"provider", d.beginSignIn)
	d.mux.HandleFunc("GET "+prefix+callback, d.endSignIn)
	d.mux.HandleFunc("GET "+prefix+"live", d.live)
	d.mux.HandleFunc("POST "+prefix+"do", d.do)
	d.mux.HandleFunc("POST "+prefix+"token", d.createToken)
	d.mux.HandleFunc("POST "+prefix+"redrive", d.redriveStream)
	d.mux.HandleFunc("GET "+prefix+"export", d.export)
	d.mux.HandleFunc("GET "+prefix+"count", d.count)
	d.mux.HandleFunc("GET "+prefix+"count-seek", d.countSeek)
	d.mux.HandleFunc("POST "+prefix+"purge-file", d.purgeFile)
	d.mux.HandleFunc("POST "+prefix+schedules.Form, d.previewSchedule)
	d.mux.HandleFunc("GET "+prefix+"{page...}", d.page)
	d.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { redirect(w, "ui/") })
	d.mux.HandleFunc("GET /ui", func(w http.ResponseWriter, _ *http.Request) { redirect(w, "ui/") })
	return d, nil
}

// Close ends the streams of open pages, so that the server can stop. The browsers then connect to another instance. Close
// blocks until the goroutines of the watch have ended.
func (d *Dashboard) Close() {
	d.close.Do(func() {
		d.watch.mu.Lock() // so that no goroutine of the watch starts after Close
		defer d.watch.mu.Unlock()
		close(d.closed)
	})
	d.watch.work.Wait()
}

// ServeHTTP answers a request for a page, an asset, an action or the stream of changes.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := d.origins.Check(r); err != nil {
		http.Error(w, fmt.Sprintf("A page of another site caused this request. The page belongs to %.300q, and the request is for the host %.300q. "+
			"If you use the dashboard through a proxy, the proxy must pass on the header Host of the browser.",
			r.Header.Get("Origin"), r.Host), http.StatusForbidden)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// redirect sends the browser to a path that is relative to the page. A proxy may serve the dashboard under
// a path that this server does not know, so the path is never absolute.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// asset serves an embedded file. The path of a file changes with its content, so a browser keeps the file for ever.
func (d *Dashboard) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, forever := page.Asset(r.PathValue("edition"), name)
	if content == nil {
		d.lost(w, r)
		return
	}
	if forever {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// page serves a page.
func (d *Dashboard) page(w http.ResponseWriter, r *http.Request) {
	shown := d.pages.Find(r.PathValue("page"))
	if shown == nil {
		d.lost(w, r)
		return
	}
	caller, err := d.session(w, r)
	if err != nil {
		d.toSignIn(w, r, err)
		return
	}
	if live := r.Header.Get("X-Live"); live == "" {
		caller.Fresh = true
	} else {
		caller.Least, _ = d.seen(live)
	}
	view := d.view(caller, r)
	view.Since, view.Page = d.since(d.deps.Changes.Count()), shown
	if r.Header.Get("X-Live") == "" && r.Method == http.MethodGet {
		view.Notice, view.Failed = takeNotice(w, r)
	}
	d.show(w, r, caller, view, r.URL.Query())
}

// show loads and renders a page.
func (d *Dashboard) show(w http.ResponseWriter, r *http.Request, caller *source.Caller, view *page.View, query url.Values) {
	status, err := d.load(caller, view, r, lines(query))
	if err != nil {
		return // the browser has disconnected
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if view.Page.Payloads {
		w.Header().Set("Cache-Control", "no-store, no-transform")
	}
	d.render(w, status, func(b *bytes.Buffer) error { return d.pages.Render(b, view) })
}

// lost answers a request for an address without a page. The caller may have no session.
func (d *Dashboard) lost(w http.ResponseWriter, r *http.Request) {
	view := &page.View{
		Root: strings.Repeat("../", strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), prefix), "/")), Version: d.deps.Version, Now: time.Now(),
		Content: &page.Content{Title: "No such page"},
		Failure: &page.Failure{Title: "No such page", Text: "There is no page at this address.", Advice: "The overview leads to all pages."},
	}
	d.render(w, http.StatusNotFound, func(b *bytes.Buffer) error { return d.pages.RenderLost(b, view) })
}

// load reads the content of a page, or sets the failure that the page shows. An error means that the browser has
// disconnected.
func (d *Dashboard) load(caller *source.Caller, view *page.View, r *http.Request, query url.Values) (int, error) {
	content, err := view.Page.Load(&page.Request{
		Ctx: r.Context(), Client: d.client, Caller: caller, Query: query, Can: view.Can, Base: base(r), Now: view.Now,
	})
	if err == nil {
		view.Content = content
		return http.StatusOK, nil
	}
	if r.Context().Err() != nil {
		return 0, r.Context().Err()
	}
	status, failure := d.failure(err)
	view.Failure, view.Content = failure, &page.Content{Title: failure.Title}
	return status, nil
}

// failure returns the HTTP status and the text for an error.
func (d *Dashboard) failure(err error) (int, *page.Failure) {
	var answer *source.Error
	if !errors.As(err, &answer) {
		d.deps.Log.Error("a page of the dashboard failed", zap.Error(err))
		return http.StatusInternalServerError, &page.Failure{
			Title: "The page failed", Text: "The server could not create the page.", Advice: "Load the page again. The log of the server has the reason.",
		}
	}
	failure := &page.Failure{Title: "The page cannot be shown", Text: answer.Text, Advice: "Load the page again."}
	switch answer.Status {
	case http.StatusNotFound:
		failure.Title, failure.Advice = "The object does not exist", "It may have been deleted. Choose another one from the list of queues."
	case http.StatusForbidden, http.StatusUnauthorized:
		failure.Title, failure.Advice = "Your token does not allow this", "Ask an administrator for the missing role or grant, or sign in with another token."
	case http.StatusServiceUnavailable:
		failure.Title, failure.Advice = "The server cannot answer in time", "The page loads again automatically. See /readyz for the readiness of the server."
	}
	failure.Again = answer.Status >= http.StatusInternalServerError
	failure.Live = failure.Again || answer.Status == http.StatusNotFound // the object may be created
	return answer.Status, failure
}

// render writes a page. If the template fails, it writes an error instead.
func (d *Dashboard) render(w http.ResponseWriter, status int, write func(b *bytes.Buffer) error) {
	b := &bytes.Buffer{}
	if err := write(b); err != nil {
		d.deps.Log.Error("a page of the dashboard failed", zap.Error(err))
		http.Error(w, "The page failed. The log of the server has the reason.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser may have disconnected
}

// view returns the parts that all pages have in common.
func (d *Dashboard) view(caller *source.Caller, r *http.Request) *page.View {
	view := &page.View{
		Can: page.Can{ReadOnly: d.cfg.ReadOnly, Principal: caller.Principal}, SignedIn: caller.Token != "", Version: d.deps.Version,
		Here: strings.TrimPrefix(r.URL.Path, prefix), Base: base(r), Now: time.Now(),
	}
	if r.URL.RawQuery != "" {
		view.Here += "?" + r.URL.RawQuery
	}
	if p := caller.Principal; p != nil {
		view.Who, view.ExpiresAt = p.Subject, p.ExpiresAt
		if view.Who == "" {
			view.Who = "(no name)"
		}
	}
	return view
}

// base returns the URL of the server that the commands on the pages contain.
func base(r *http.Request) string {
	scheme := "http://"
	if isSecure(r) {
		scheme = "https://"
	}
	return scheme + r.Host
}

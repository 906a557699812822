package page

import (
	"context"
	"embed"
	"html/template"
	"io"
	"net/url"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

//go:embed templates
var templateFiles embed.FS

// Request is a request for a page.
type Request struct {
	Ctx    context.Context
	Client *source.Client
	Caller *source.Caller
	Query  url.Values
	Can    Can
	// Base is the URL of the server, as the browser sees it. The commands on the page contain it.
	Base string
	Now  time.Time
}

// Content is the content of a page.
type Content struct {
	Title string
	Data  any
	// Commands have the same effect as the page and its actions.
	Commands []Command
}

// Page is one page of the dashboard.
type Page struct {
	// Path is the last part of the path of the page.
	Path string
	// Name is the name of the page in the navigation. If it is empty, the navigation does not contain the page, and
	// marks the page Under instead.
	Name, Under string
	// ForAll is true if callers with grants may not see the page.
	ForAll bool
	// Payloads is true if the page shows payloads or the data of traces. Such a page is not compressed.
	Payloads bool
	// Template is the name of the template file, without its extension.
	Template string
	// Load reads the content. Errors: *source.Error, and ctx.Err() when the browser disconnects.
	Load   func(r *Request) (*Content, error)
	parsed *template.Template
}

// View is the content of a page with the values that the layout shows.
type View struct {
	*Content
	// Root is the relative path from the folder of the address to the folder of the pages: empty, or "../" one or more
	// times.
	Root string
	// Page is the shown page, or nil for an unknown address and for the sign-in page.
	Page  *Page
	Pages []*Page
	Can   Can
	// SignedIn is true if there is a session that the person can end.
	SignedIn bool
	// Who is the name of the caller. ExpiresAt is the end of its token.
	Who       string
	ExpiresAt time.Time
	Version   string
	// Notice describes the result of the last action. Failed is true if the action failed.
	Notice string
	Failed bool
	// Failure says why there is no content. It is nil if there is content.
	Failure *Failure
	// Here is the path of the page with its query. After an action, the browser returns to it.
	Here string
	// Since is the id of the last change that the page includes, for the stream of changes.
	Since string
	// Base is the URL of the server.
	Base string
	Now  time.Time
}

// Failure is an error that a page shows.
type Failure struct {
	Title, Text, Advice string
	// Live is true if a change may end the failure. Again is true if the page must be read again without a change.
	Live, Again bool
}

// Set renders the pages.
type Set struct {
	Pages  []*Page
	signIn *template.Template
	onward *template.Template
	token  *template.Template
	failed *template.Template
}

// Parse reads the templates of pages.
func Parse(pages []*Page) (*Set, error) {
	layout, err := template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html",
		"templates/backlog.html", "templates/resend.html")
	if err != nil {
		return nil, err
	}
	one := func(name string) *template.Template {
		t, cloneErr := layout.Clone()
		if cloneErr == nil {
			t, cloneErr = t.ParseFS(templateFiles, "templates/"+name+".html")
		}
		if cloneErr != nil && err == nil {
			err = cloneErr
		}
		return t
	}
	set := &Set{Pages: pages, signIn: one("signin"), onward: one("onward"), token: one("token"), failed: one("failure")}
	for _, page := range set.Pages {
		page.parsed = one(page.Template)
	}
	return set, err
}

// Find returns the page with a path, or nil.
func (s *Set) Find(path string) *Page {
	for _, page := range s.Pages {
		if page.Path == path {
			return page
		}
	}
	return nil
}

// Render writes the page of a view.
func (s *Set) Render(w io.Writer, v *View) error {
	v.Pages = s.Pages
	if v.Failure != nil {
		return s.failed.Execute(w, v)
	}
	return v.Page.parsed.Execute(w, v)
}

// RenderLost writes the page for an unknown address. This page has no navigation.
func (s *Set) RenderLost(w io.Writer, v *View) error { return s.failed.Execute(w, v) }

// SignIn is the data of the sign-in page.
type SignIn struct {
	// Next is the page that the browser opens after signing in.
	Next string
	// Provider is the host of the identity provider. It is empty if people sign in with a token only.
	Provider string
}

// Onward is the data of a page that loads another page.
type Onward struct {
	// To is the URL of the other page.
	To   string
	Text string
}

// RenderToken writes the page that shows a new token. Its data is an api.CreatedToken.
func (s *Set) RenderToken(w io.Writer, v *View) error { return s.token.Execute(w, v) }

// RenderOnward writes a page that loads another page.
func (s *Set) RenderOnward(w io.Writer, v *View) error { return s.onward.Execute(w, v) }

// RenderSignIn writes the sign-in page.
func (s *Set) RenderSignIn(w io.Writer, v *View) error { return s.signIn.Execute(w, v) }

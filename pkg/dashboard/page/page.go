package page

import (
	"context"
	"embed"
	"html/template"
	"io"
	"io/fs"
	"net/url"
	"time"

	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// Assets returns the style sheet, the scripts and the icon.
func Assets() fs.FS {
	sub, err := fs.Sub(assetFiles, "assets")
	if err != nil { // the folder is embedded
		return assetFiles
	}
	return sub
}

// Request is a request for a page.
type Request struct {
	Ctx    context.Context
	Client *source.Client
	Caller *source.Caller
	Query  url.Values
	Can    Can
	// Base is the URL of the server, as the browser sees it. Commands name it.
	Base string
	Now  time.Time
}

// Content is what a page shows.
type Content struct {
	Title string
	Data  any
	// Commands do or show the same as the page.
	Commands []Command
}

// Page is one page of the dashboard.
type Page struct {
	// Path is the last part of its path.
	Path string
	// Name is its name in the navigation. Empty: it is not there. Under is the page of the navigation that
	// is marked then.
	Name, Under string
	// ForAll says that a caller with grants may not see it.
	ForAll bool
	// Template is the name of its file in templates.
	Template string
	// Load reads what the page shows. Errors: *source.Error, and ctx.Err() when the browser leaves.
	Load   func(r *Request) (*Content, error)
	parsed *template.Template
}

// View is what the layout shows around the content.
type View struct {
	*Content
	// Root is the way from the folder of the address to that of the pages: empty, or some "../".
	Root string
	// Page is the shown page; nil: none of them.
	Page  *Page
	Pages []*Page
	Can   Can
	// SignedIn says that there is a session to end.
	SignedIn bool
	// Who names the caller, and ExpiresAt says when its token ends.
	Who       string
	ExpiresAt time.Time
	Version   string
	// Notice is what the last action did. Failed says that it did not.
	Notice string
	Failed bool
	// Failure is why there is no content.
	Failure *Failure
	// Here is the path of the page with its query, for forms to come back to.
	Here string
	// Since says up to which change the page has seen, for the stream of changes.
	Since string
	// Base is the URL of the server.
	Base string
	Now  time.Time
}

// Failure is an error that a page shows.
type Failure struct {
	Title, Text, Advice string
}

// Set renders the pages.
type Set struct {
	Pages  []*Page
	signIn *template.Template
	failed *template.Template
}

// Parse reads the templates of pages.
func Parse(pages []*Page) (*Set, error) {
	layout, err := template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
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
	set := &Set{Pages: pages, signIn: one("signin"), failed: one("failure")}
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

// RenderLost writes the answer to an address without a page. It has no navigation.
func (s *Set) RenderLost(w io.Writer, v *View) error { return s.failed.Execute(w, v) }

// SignIn is what the page for signing in shows.
type SignIn struct {
	// Next is where the browser goes after that.
	Next string
}

// RenderSignIn writes the page for signing in.
func (s *Set) RenderSignIn(w io.Writer, v *View) error { return s.signIn.Execute(w, v) }

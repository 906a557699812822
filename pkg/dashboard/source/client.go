package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// maxAnswer is the maximum size in bytes of an API answer that a page reads.
const maxAnswer = 64 << 20

// Caller is the caller of a page: the request of the browser, its token and its principal.
type Caller struct {
	// Request has the address and the client certificate of the browser.
	Request *http.Request
	// Token is sent to the API, unless it is empty.
	Token string
	// Principal belongs to the token. It is nil if the server requires no tokens.
	Principal *identity.Principal
	// Fresh is true if the answers must include every change so far. It is set when a person loads a page.
	Fresh bool
	// Least is the number of changes that the answers must include if Fresh is false. When an open page is read again,
	// Least is the count in the event of its stream.
	Least uint64
}

// key identifies the rights of the caller. Callers with equal keys share answers.
func (c *Caller) key() string {
	if c.Principal == nil {
		return ""
	}
	grants, err := json.Marshal(c.Principal.Grants)
	if err != nil { // cannot happen: grants have only texts
		return c.Token
	}
	return c.Principal.Role.String() + " " + string(grants)
}

// Error is an answer of the API with a status of 400 or more.
type Error struct {
	Status int
	Text   string
}

// Error returns the text of the API.
func (e *Error) Error() string { return e.Text }

// IsStatus reports whether err is an answer of the API with this status.
func IsStatus(err error, status int) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Status == status
}

// Client calls the API. It is safe for concurrent use.
//
// While no change happens, later reads use a kept answer again, for at most maxAge. While changes happen all
// the time, reads use an answer for minAge, or for longer if its read was slow. So the cost does not grow with the
// number of open pages.
type Client struct {
	api     http.Handler
	changes *Changes
	answers answers
}

// New returns a Client for the API that the handler api serves.
func New(api http.Handler, changes *Changes) *Client {
	return &Client{api: api, changes: changes, answers: answers{kept: map[string]*answer{}}}
}

// Do sends a request that makes a change. It decodes the answer into out, unless out is nil.
// Errors: *Error.
func (c *Client) Do(caller *Caller, method, path string, body, out any) error {
	defer func() {
		c.changes.Changed()
		c.answers.expire(c.changes.Count())
	}()
	return c.send(caller.Request.Context(), caller, call{method, path, body}, out)
}

// Try sends a POST that changes nothing, such as a dry run. Errors: *Error, and the error of ctx.
func (c *Client) Try(ctx context.Context, caller *Caller, path string, body any) error {
	return c.send(ctx, caller, call{http.MethodPost, path, body}, nil)
}

// DryRun sends a PUT with a query that makes it change nothing. It decodes the answer into out. Errors: *Error, and the error of
// ctx.
func (c *Client) DryRun(ctx context.Context, caller *Caller, path string, body, out any) error {
	return c.send(ctx, caller, call{http.MethodPut, path, body}, out)
}

// Stream sends a request that makes a change, and streams the answer to w. It returns when the answer ends, or when the
// caller disconnects. An error means that it has written nothing to w.
func (c *Client) Stream(caller *Caller, w http.ResponseWriter, path string, body any) error {
	defer func() {
		c.changes.Changed()
		c.answers.expire(c.changes.Count())
	}()
	r, err := newRequest(caller.Request.Context(), caller, call{http.MethodPost, path, body})
	if err == nil {
		c.api.ServeHTTP(w, r)
	}
	return err
}

// Watch streams the answer to GET path to w. It returns when the answer ends, or when the caller disconnects. An error means that
// it has written nothing to w.
func (c *Client) Watch(caller *Caller, w http.ResponseWriter, path string) error {
	r, err := newRequest(caller.Request.Context(), caller, call{http.MethodGet, path, nil})
	if err == nil {
		c.api.ServeHTTP(w, r)
	}
	return err
}

// Load decodes the answer to GET path into out. It does not use or keep shared answers. Errors: ErrTooLarge, *Error, and
// the error of ctx.
func (c *Client) Load(ctx context.Context, caller *Caller, path string, out any) error {
	return c.send(ctx, caller, call{http.MethodGet, path, nil}, out)
}

// call is one request to the API.
type call struct {
	method, path string
	body         any
}

func (c *Client) send(ctx context.Context, caller *Caller, what call, out any) error {
	r, err := newRequest(ctx, caller, what)
	if err != nil {
		return err
	}
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	c.api.ServeHTTP(w, r)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", what.path, err)
	}
	return w.decode(what.path, out)
}

// newRequest returns the request of a caller to the API.
func newRequest(ctx context.Context, caller *Caller, what call) (*http.Request, error) {
	var sent io.Reader = http.NoBody
	if what.body != nil {
		b := &bytes.Buffer{}
		write := json.NewEncoder(b)
		write.SetEscapeHTML(false) // keeps the payload as the person wrote it
		if err := write.Encode(what.body); err != nil {
			return nil, fmt.Errorf("encoding the body of %s: %w", what.path, err)
		}
		sent = bytes.NewReader(bytes.TrimRight(b.Bytes(), "\n"))
	}
	r, err := http.NewRequestWithContext(ctx, what.method, what.path, sent)
	if err != nil {
		return nil, fmt.Errorf("making the request %s: %w", what.path, err)
	}
	r.RequestURI = what.path
	r.RemoteAddr, r.TLS, r.Host = caller.Request.RemoteAddr, caller.Request.TLS, caller.Request.Host
	for _, name := range []string{"X-Forwarded-For", "X-Request-Id"} {
		r.Header[name] = caller.Request.Header[name]
	}
	if caller.Token != "" {
		r.Header.Set("Authorization", "Bearer "+caller.Token)
	}
	return r, nil
}

// recorder keeps an answer of the API.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	// overflown is true if the body exceeds maxAnswer and is incomplete.
	overflown bool
}

// ErrTooLarge is the error for an answer of more than maxAnswer bytes.
var ErrTooLarge = fmt.Errorf("the answer has more than %d bytes", maxAnswer)

// Header returns the headers of the answer.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader sets the status of the answer.
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write adds to the body of the answer.
func (w *recorder) Write(p []byte) (int, error) {
	if w.body.Len()+len(p) > maxAnswer {
		w.overflown = true
		return 0, ErrTooLarge
	}
	return w.body.Write(p)
}

func (w *recorder) decode(path string, out any) error {
	if w.status >= http.StatusBadRequest {
		var failed struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(w.body.Bytes(), &failed) != nil || failed.Error == "" {
			failed.Error = http.StatusText(w.status)
		}
		return &Error{w.status, strings.TrimSpace(failed.Error)}
	}
	if out == nil {
		return nil
	}
	if w.overflown {
		return fmt.Errorf("reading the answer to %s: %w", path, ErrTooLarge)
	}
	if err := json.Unmarshal(w.body.Bytes(), out); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", path, err)
	}
	return nil
}

package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/belfry-mq/belfry/pkg/client/reach"
	"github.com/belfry-mq/belfry/pkg/client/spans"
)

// lenient accepts all JSON that the server accepts in payloads, and keeps the bytes of payloads. It matches names as
// encoding/json does.
var lenient = json.JoinOptions(
	json.MatchCaseInsensitiveNames(true), jsonv1.MatchCaseSensitiveDelimiter(true),
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true),
)

// Request is a request to any route of the API. docs/http-reference.md lists them.
type Request struct {
	Method string
	// Path begins with a slash. The caller escapes names in the path with url.PathEscape.
	Path  string
	Query url.Values
	// Body is encoded as JSON. nil sends no body.
	Body any
}

// Do sends a request and decodes the JSON of the answer into the variable to which into points. If into is nil, Do discards the
// answer. If into is a *[]byte, the variable gets the body unchanged. An empty answer, such as 204, does not change the variable.
// If the status is not 2xx, the error is an *Error.
//
// Do matches the names in the JSON with the fields of into as encoding/json does. It repeats GET, HEAD, PUT and DELETE as the
// package documentation says. It repeats other methods only after 429 and 503, and if it could not connect to the server. It
// blocks until there is an answer, until RetryFor has passed, or until ctx ends.
func (c *Client) Do(ctx context.Context, request Request, into any) error {
	call, err := newCall(request)
	if err != nil {
		return err
	}
	switch call.method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		call.repeatable = true
	}
	return c.exchange(ctx, call, into)
}

// call is a request with its encoded body and the rules of its repetition.
type call struct {
	method, target string
	body           []byte
	header         http.Header // additional headers, or nil
	// repeatable: a second request has no further effect.
	repeatable bool
	// wait is how long the server may wait before it answers.
	wait time.Duration
	// endless: the call is repeated until the context ends.
	endless bool
	// hasty: the call is not repeated after 429.
	hasty bool
}

func newCall(r Request) (call, error) {
	made := call{method: cmp.Or(r.Method, http.MethodGet), target: r.Path}
	if len(r.Query) > 0 {
		made.target += "?" + r.Query.Encode()
	}
	if r.Body == nil {
		return made, nil
	}
	body, err := json.Marshal(r.Body, lenient)
	if err != nil {
		return call{}, fmt.Errorf("encoding the body of %s %s: %w", r.Method, r.Path, err)
	}
	made.body = body
	return made, nil
}

// exchange sends a call and decodes the answer.
func (c *Client) exchange(ctx context.Context, made call, into any) error {
	answer, err := c.send(ctx, made)
	if err != nil || into == nil || len(answer) == 0 {
		return err
	}
	if raw, ok := into.(*[]byte); ok {
		*raw = answer
		return nil
	}
	if err := json.Unmarshal(answer, into, lenient); err != nil {
		return fmt.Errorf("decoding the answer of %s %s: %w", made.method, made.target, err)
	}
	return nil
}

// send sends a call until it is answered, and returns the body of the answer.
func (c *Client) send(ctx context.Context, made call) ([]byte, error) {
	began := time.Now()
	watch := c.watchOutage(made)
	defer watch.end()
	renewed := false
	for attempt := 1; ; attempt++ {
		used, number := c.servers.Use()
		token, err := c.tokens.Get(ctx)
		var answer []byte
		if err != nil {
			err = &Error{Method: made.method, Path: made.target, URL: used.Printed, cause: err}
		} else {
			answer, err = c.attempt(watch.trace(ctx), used, token, made)
		}
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s %s: %w", made.method, made.target, context.Cause(ctx))
		}
		var failure *Error
		if !errors.As(err, &failure) {
			return nil, err
		}
		if failure.Status == http.StatusUnauthorized && !renewed && c.tokens.Refused(token) {
			renewed = true
			attempt-- // the next attempt uses the same server
			continue
		}
		if !failure.temporary(made.repeatable) || made.hasty && failure.Status == http.StatusTooManyRequests {
			return nil, err
		}
		pause := c.pause(failure, number, attempt)
		another := pause == 0 && failure.Status != http.StatusTooManyRequests
		if !made.endless && !another && time.Since(began)+pause > c.retryFor {
			return nil, err
		}
		watch.failed(err)
		c.log.WarnContext(ctx, "a request is repeated", "error", err, "pause", pause, "attempt", attempt)
		if !pauseFor(ctx, pause) {
			return nil, fmt.Errorf("%s %s: %w", made.method, made.target, context.Cause(ctx))
		}
	}
}

// pause returns how long to wait after a failed attempt. After any failure but 429, it changes to the next server. A server
// that the call has not tried is tried at once, even if the failed server sent Retry-After.
func (c *Client) pause(failure *Error, number int64, attempt int) time.Duration {
	pause := c.servers.Backoff(attempt)
	if failure.Status == http.StatusTooManyRequests {
		return max(failure.RetryAfter, pause)
	}
	c.servers.Failed(number)
	if pause == 0 {
		return 0
	}
	return max(failure.RetryAfter, pause)
}

// attempt sends a call once.
func (c *Client) attempt(ctx context.Context, to reach.Server, token string, made call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout+made.wait)
	defer cancel()
	response, err := c.open(ctx, to, token, made)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or failed
	answer, err := readAll(response)
	if err != nil {
		return nil, &Error{Method: made.method, Path: made.target, URL: to.Printed, cause: fmt.Errorf("reading the answer: %w", err)}
	}
	return answer, nil
}

// open sends a call once, and returns the answer if its status is 2xx. The caller closes the body of the answer.
func (c *Client) open(ctx context.Context, to reach.Server, token string, made call) (*http.Response, error) {
	failure := &Error{Method: made.method, Path: made.target, URL: to.Printed}
	var body io.Reader
	if made.body != nil {
		body = bytes.NewReader(made.body)
	}
	request, err := http.NewRequestWithContext(ctx, made.method, to.Base+made.target, body)
	if err != nil {
		return nil, fmt.Errorf("making the request %s %s: %w", made.method, made.target, unwrapURL(err))
	}
	maps.Copy(request.Header, made.header)
	spans.Inject(ctx, request.Header)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	} else if !made.repeatable {
		// Without a body, http.Transport itself repeats a GET when a kept connection breaks.
		request.Body = io.NopCloser(bytes.NewReader(nil))
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		failure.cause = unwrapURL(err)
		return nil, failure
	}
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or failed
	answer, err := readAll(response)
	if err != nil {
		failure.cause = fmt.Errorf("reading the answer: %w", err)
		return nil, failure
	}
	return nil, failure.refusal(response.StatusCode, response.Header, answer)
}

// unwrapURL removes the URL from an error, because the URL has the user and the password.
func unwrapURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// readAll reads the body of an answer. If the length is known, it needs one allocation.
func readAll(response *http.Response) ([]byte, error) {
	const most = 64 << 20 // a larger length is not trusted, and not allocated in advance
	if response.Body == http.NoBody {
		return nil, nil
	}
	if response.ContentLength <= 0 || response.ContentLength > most {
		return io.ReadAll(response.Body)
	}
	answer := make([]byte, response.ContentLength)
	_, err := io.ReadFull(response.Body, answer)
	return answer, err
}

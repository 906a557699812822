package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
	// tokenMargin is how long before its expiry the client replaces a token.
	tokenMargin = 10 * time.Second
)

// server is the URL of a server.
type server struct {
	// base is the URL for requests. printed is the URL for errors and logs, without the user and the password.
	base, printed string
}

// parseServer reads the URL of a server.
func parseServer(text string) (server, error) {
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
		reason := ""
		// err may quote a part of the password, so the error of a URL with @ does not contain err.
		if at := strings.LastIndexByte(text, '@'); at >= 0 {
			text = "…" + text[at:]
		} else if err != nil {
			reason = ": " + unwrapURL(err).Error()
		}
		return server{}, fmt.Errorf("the URL %q is not of the form http://host:port or https://host:port%s", text, reason)
	}
	anonymous := *base
	anonymous.User = nil
	return server{strings.TrimSuffix(base.String(), "/"), strings.TrimSuffix(anonymous.String(), "/")}, nil
}

// servers is a list of equal servers. One server is in use.
type servers struct {
	all     []server
	current atomic.Int64
}

// use returns the server in use. number is the argument of failed for this server.
func (s *servers) use() (used server, number int64) {
	number = s.current.Load()
	return s.all[number%int64(len(s.all))], number
}

// failed changes to the next server. It does nothing if another call has already changed it.
func (s *servers) failed(number int64) { s.current.CompareAndSwap(number, number+1) }

// backoff returns the pause after a number of failed attempts, at least 1. It is 0 until each server has had one attempt. The
// pauses double. They vary by ±50 %, so that clients do not repeat their requests at the same time.
func (s *servers) backoff(attempts int) time.Duration {
	if attempts%len(s.all) != 0 {
		return 0
	}
	const doublings = 10 // above maxPause
	pause := min(maxPause, firstPause<<min(doublings, attempts/len(s.all)-1))
	return pause/2 + rand.N(pause)
}

// TokenFunc returns a bearer token and the instant when the token expires. The zero instant means that the expiry is unknown.
// The client calls TokenFunc again ten seconds before the token expires, and after an answer 401. Only one goroutine calls
// TokenFunc at a time, with the context of the request that needs the token.
type TokenFunc func(ctx context.Context) (token string, expires time.Time, err error)

// StaticToken returns a TokenFunc for a token that never changes.
func StaticToken(token string) TokenFunc {
	return func(context.Context) (string, time.Time, error) { return token, time.Time{}, nil }
}

// tokens keeps the current token.
type tokens struct {
	fetch TokenFunc
	// fetching has one element while a goroutine fetches a token.
	fetching chan struct{}

	mu      sync.Mutex
	token   string
	expires time.Time
}

func newTokens(fetch TokenFunc) *tokens {
	return &tokens{fetch: fetch, fetching: make(chan struct{}, 1)}
}

// current returns the stored token. It returns "" if there is no token or the token expires within tokenMargin.
func (t *tokens) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.expires.IsZero() && time.Until(t.expires) < tokenMargin {
		return ""
	}
	return t.token
}

// get returns a token, or "" if the client has no TokenFunc. It blocks until the TokenFunc returns or ctx ends.
func (t *tokens) get(ctx context.Context) (string, error) {
	if t.fetch == nil {
		return "", nil
	}
	if token := t.current(); token != "" {
		return token, nil
	}
	select {
	case t.fetching <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-t.fetching }()
	if token := t.current(); token != "" {
		return token, nil
	}
	token, expires, err := t.fetch(ctx)
	if err != nil {
		return "", fmt.Errorf("fetching a token: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token, t.expires = token, expires
	return token, nil
}

// refused deletes a token that the server did not accept. It returns false if the client has no TokenFunc.
func (t *tokens) refused(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = ""
	}
	return t.fetch != nil
}

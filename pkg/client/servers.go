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
	// tokenMargin is how long before its end a token is replaced.
	tokenMargin = 10 * time.Second
)

// server is the URL of a server.
type server struct {
	// base has the user and the password, if there are any. printed is for errors and logs, and has neither.
	base, printed string
}

// parseServer reads the URL of a server.
func parseServer(text string) (server, error) {
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
		reason := ""
		// The reason quotes a part of the URL, which may be of the password.
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

// servers are equal servers, one of which is in use.
type servers struct {
	all     []server
	current atomic.Int64
}

// use returns the server in use, and its number for failed.
func (s *servers) use() (used server, number int64) {
	number = s.current.Load()
	return s.all[number%int64(len(s.all))], number
}

// failed makes the next server the one in use, unless another call has done it.
func (s *servers) failed(number int64) { s.current.CompareAndSwap(number, number+1) }

// backoff returns the pause after a number of failed attempts, the first being 1. Each server gets one attempt before the
// first pause. Pauses double, and vary by half so that clients do not come all at once.
func (s *servers) backoff(attempts int) time.Duration {
	if attempts%len(s.all) != 0 {
		return 0
	}
	const doublings = 10 // above maxPause
	pause := min(maxPause, firstPause<<min(doublings, attempts/len(s.all)-1))
	return pause/2 + rand.N(pause)
}

// TokenFunc returns a bearer token and the instant when it expires. The zero instant means that only an answer 401 shows
// that. The client keeps the token until ten seconds before it expires, and asks for another one after an answer 401.
// It is called by one goroutine at a time, under the context of the request that needs the token.
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

// current returns the kept token, or "" without a token that lasts.
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

// refused forgets a token that the server did not accept. It returns false if the client cannot get another one.
func (t *tokens) refused(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = ""
	}
	return t.fetch != nil
}

// Package reach chooses the server for a request of the Go client, and keeps its token. Only pkg/client imports it.
package reach

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// FirstPause is the pause after the first failed attempt at all servers.
	FirstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
	// tokenMargin is how long before its expiry the client replaces a token.
	tokenMargin = 10 * time.Second
)

// Server is the URL of a server.
type Server struct {
	// Base is the URL for requests. Printed is the URL for errors and logs, without the user and the password.
	Base, Printed string
}

// parse reads the URL of a server.
func parse(text string) (Server, error) {
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
		reason := ""
		// err may quote a part of the password, so the error of a URL with @ does not contain err.
		if at := strings.LastIndexByte(text, '@'); at >= 0 {
			text = "…" + text[at:]
		} else if err != nil {
			reason = ": " + err.Error()
			if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
				reason = ": " + wrapped.Err.Error()
			}
		}
		return Server{}, fmt.Errorf("the URL %q is not of the form http://host:port or https://host:port%s", text, reason)
	}
	anonymous := *base
	anonymous.User = nil
	return Server{strings.TrimSuffix(base.String(), "/"), strings.TrimSuffix(anonymous.String(), "/")}, nil
}

// Servers is a list of equal servers. One server is in use.
type Servers struct {
	all     []Server
	current atomic.Int64
}

// NewServers reads the URLs of at least one server. It fails if one is not valid.
func NewServers(urls []string) (*Servers, error) {
	all := make([]Server, len(urls))
	for i, text := range urls {
		var err error
		if all[i], err = parse(text); err != nil {
			return nil, err
		}
	}
	return &Servers{all: all}, nil
}

// Use returns the server in use. number is the argument of Failed for this server.
func (s *Servers) Use() (used Server, number int64) {
	number = s.current.Load()
	return s.all[number%int64(len(s.all))], number
}

// Failed changes to the next server. It does nothing if another call has already changed it.
func (s *Servers) Failed(number int64) { s.current.CompareAndSwap(number, number+1) }

// Backoff returns the pause after a number of failed attempts, at least 1. It is 0 until each server has had one attempt. The
// pauses double. They vary by ±50 %, so that clients do not repeat their requests at the same time.
func (s *Servers) Backoff(attempts int) time.Duration {
	if attempts%len(s.all) != 0 {
		return 0
	}
	const doublings = 10 // above maxPause
	pause := min(maxPause, FirstPause<<min(doublings, attempts/len(s.all)-1))
	return pause/2 + rand.N(pause)
}

// Tokens keeps the current token.
type Tokens struct {
	fetch func(context.Context) (token string, expires time.Time, err error)
	// fetching has one element while a goroutine fetches a token.
	fetching chan struct{}

	mu      sync.Mutex
	token   string
	expires time.Time
}

// NewTokens returns the tokens that fetch returns. fetch may be nil: then there is no token.
func NewTokens(fetch func(context.Context) (token string, expires time.Time, err error)) *Tokens {
	return &Tokens{fetch: fetch, fetching: make(chan struct{}, 1)}
}

// current returns the stored token. It returns "" if there is no token or the token expires within tokenMargin.
func (t *Tokens) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.expires.IsZero() && time.Until(t.expires) < tokenMargin {
		return ""
	}
	return t.token
}

// Get returns a token, or "" if the client has no function for tokens. It blocks until that function returns or ctx ends.
func (t *Tokens) Get(ctx context.Context) (string, error) {
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

// Refused deletes a token that the server did not accept. It returns false if there is no function for tokens.
func (t *Tokens) Refused(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = ""
	}
	return t.fetch != nil
}

package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

// transport is a function that implements http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// hang waits until the client gives the request up. connected: a server has the request.
func hang(r *http.Request, connected bool, d time.Duration) error {
	if connected {
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	}
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-time.After(d):
		return errors.New("connection reset")
	}
}

// A call without a connection calls OnOutage once, after two seconds. Left is how long the call still tries.
func TestOutagesAreReported(t *testing.T) {
	t.Parallel()
	const long = time.Hour
	refused := errors.New("connection refused")
	for _, c := range []struct {
		name     string
		retryFor time.Duration
		attempt  func(r *http.Request, number int) error
		// at is when OnOutage is called, 0 means never. left is the expected value of Left.
		at, left time.Duration
		cause    string
	}{
		{"refused", 0, func(*http.Request, int) error { return refused }, 2 * time.Second, 28 * time.Second, "connection refused"},
		{"no connection", 0, func(r *http.Request, _ int) error { return hang(r, false, long) }, 2 * time.Second, 28 * time.Second, ""},
		{"no connection, one attempt", -1, func(r *http.Request, _ int) error { return hang(r, false, long) }, 2 * time.Second, 28 * time.Second, ""},
		{"refused, one attempt", -1, func(*http.Request, int) error { return refused }, 0, 0, ""},
		{"a slow server", 0, func(r *http.Request, _ int) error { return hang(r, true, long) }, 0, 0, ""},
		{"a slow server that ends", 0, func(r *http.Request, number int) error {
			if number == 1 {
				return hang(r, true, 10*time.Second)
			}
			return refused
		}, 12 * time.Second, 18 * time.Second, "connection re"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, number := time.Now(), 0
				type told struct {
					at time.Duration
					client.Outage
				}
				heard := make(chan told, 10)
				made, err := client.New(client.Config{
					URLs: []string{"http://server"}, RetryFor: c.retryFor,
					HTTPClient: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
						number++
						return nil, c.attempt(r, number)
					})},
					OnOutage: func(o client.Outage) { heard <- told{time.Since(began), o} },
				})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				require.Error(t, made.Do(ctx, client.Request{Path: "/x"}, nil))
				synctest.Wait()
				if c.at == 0 {
					require.Empty(t, heard)
					return
				}
				require.Len(t, heard, 1)
				got := <-heard
				require.Equal(t, []time.Duration{c.at, c.left}, []time.Duration{got.at, got.Left})
				if c.cause == "" {
					require.NoError(t, got.Cause)
				} else {
					require.ErrorContains(t, got.Cause, c.cause)
				}
			})
		})
	}
}

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

// After a broken stream, the iteration yields an error and continues. The next connection names the last event. A permanent error
// ends the iteration.
func TestEventsContinueAfterABrokenStream(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Last-Event-ID")+" "+r.Header.Get("Accept"))
		switch len(asked) {
		case 1:
			_, _ = fmt.Fprint(w, "retry: 2000\n\n: comment\n\nid: e-1\nevent: snapshot\ndata: {\"type\":\"snapshot\",\n"+
				"data: \"at\":\"2026-05-16T08:41:27Z\",\"data\":{\"n\":1}}\n\nid: e-2\nevent: x\ndata: {\"type\":\"queue.created\",\"queue\":\"q\",\"later\":1}\n\nid: e-3\ndata: {\"ty")
		default:
			http.Error(w, `{"error": "no"}`, http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{URLs: []string{server.URL}})
	require.NoError(t, err)
	var events []client.Event
	var failures []error
	for event, err := range c.Events(t.Context()) {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		events = append(events, event)
	}
	require.Len(t, events, 2)
	require.Equal(t, []string{"e-1", "snapshot", `{"n":1}`}, []string{events[0].ID, events[0].Type, string(events[0].Data)})
	require.Equal(t, []string{"e-2", "queue.created", "q"}, []string{events[1].ID, events[1].Type, events[1].Queue})
	require.Len(t, failures, 2)
	require.ErrorIs(t, failures[0], client.ErrUnavailable)
	require.ErrorIs(t, failures[1], client.ErrForbidden)
	require.Equal(t, []string{"/api/v1/events  text/event-stream", "/api/v1/events e-2 text/event-stream"}, asked)
}

// When the caller leaves the loop or the context ends, the connection is closed.
func TestEventsEndWithTheirLoop(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "data: {\"type\":\"snapshot\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{URLs: []string{server.URL}})
	require.NoError(t, err)
	for _, err := range c.Events(t.Context()) {
		require.NoError(t, err)
		break
	}
	<-gone
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range c.Events(ctx) {
		require.NoError(t, err, "when the context ends, the iteration yields no error")
		cancel()
	}
	<-gone
}

// streaming answers each request with the next text. After the last text the stream stays open.
func streaming(texts ...string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if len(texts) == 0 {
			return nil, errors.New("no more streams")
		}
		reader, writer := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(r.Context().Err()) })
		text := texts[0]
		texts = texts[1:]
		go func() { _, _ = io.WriteString(writer, text) }()
		return &http.Response{StatusCode: http.StatusOK, Body: reader}, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The time limit for a silent stream does not run while the loop body runs.
func TestEventsWaitForTheLoopBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, streaming("data: {}\n\n"+"data: {}\n\n"))
		began, count := time.Now(), 0
		for _, err := range c.Events(t.Context()) {
			if count++; count > 2 {
				require.ErrorContains(t, err, "sent nothing for 45s")
				require.ErrorIs(t, err, client.ErrUnavailable)
				break
			}
			require.NoError(t, err)
			time.Sleep(10 * time.Minute)
		}
		require.Equal(t, 20*time.Minute+45*time.Second, time.Since(began))
	})
}

// An event that cannot be decoded ends the iteration, because a new stream would send the same event again.
func TestAnEventThatCannotBeReadEndsTheIteration(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"data: {\"type\":\n\n", "data: " + strings.Repeat("x", 17<<20) + "\n\n"} {
		synctest.Test(t, func(t *testing.T) {
			c := connect(t, streaming("id: 1\ndata: {}\n\n"+bad, ""))
			var failures []error
			for _, err := range c.Events(t.Context()) {
				if err != nil {
					failures = append(failures, err)
				}
				if len(failures) == 2 {
					break
				}
			}
			require.Len(t, failures, 1)
			require.ErrorContains(t, failures[0], "an event")
			require.NotErrorIs(t, failures[0], client.ErrUnavailable)
		})
	}
}

package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client"
)

// A broken stream is an error that is not the last one. The next connection names the last event. An error that no
// repetition mends ends the iteration.
func TestEventsGoOnAfterABreak(t *testing.T) {
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

// A loop that is left, and a context that ends, close the connection.
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
	for _, err := range c.Events(ctx) {
		require.NoError(t, err, "an end by the context is no error")
		cancel()
	}
	<-gone
}

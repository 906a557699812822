package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	stdjson "encoding/json"

	"github.com/go-json-experiment/json"

	"github.com/belfry-mq/belfry/pkg/client/reach"
)

const (
	// streamSilence is how long a stream may be silent. The server sends at least a comment every 15 seconds.
	streamSilence = 45 * time.Second
	// maxEventLine is the longest line of a stream.
	maxEventLine = 16 << 20
)

// Event is a change at a server, such as a new queue or a late group, or the figures of the last second. docs/events.md lists
// the types with their data.
type Event struct {
	// ID is "" for an event that the server sends only to this stream.
	ID       string    `json:"-"`
	Type     string    `json:"type"`
	At       time.Time `json:"at"`
	Instance string    `json:"instance"`
	// Queue, Partition and Group are "" if they do not apply.
	Queue     string `json:"queue"`
	Partition string `json:"partition"`
	Group     string `json:"consumerGroup"`
	// Data depends on the type. It may be nil.
	Data stdjson.RawMessage `json:"data"`
}

// Events yields the events of a server until ctx ends or the caller leaves the loop. The first event is a snapshot.
//
// When the stream breaks, Events yields an error that is ErrUnavailable, connects again, and continues after the last event. If
// the server no longer has the events after the last event, the server sends another snapshot first. After any other error, such
// as an event that cannot be read, the iteration ends.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		last, renewed := "", false
		for attempt := 1; ctx.Err() == nil; attempt++ {
			used, number := c.servers.Use()
			token, err := c.tokens.Get(ctx)
			if err != nil {
				err = &Error{Method: http.MethodGet, Path: eventsPath, URL: used.Printed, cause: err}
			} else {
				var came bool
				came, err = c.follow(ctx, used, token, &last, yield)
				if came {
					attempt, renewed = 1, false
				}
			}
			if errors.Is(err, errLeft) || ctx.Err() != nil {
				return
			}
			var failure *Error
			if !errors.As(err, &failure) {
				yield(Event{}, err)
				return
			}
			if failure.Status == http.StatusUnauthorized && !renewed && c.tokens.Refused(token) {
				renewed = true
				continue
			}
			if !yield(Event{}, failure) || !failure.temporary(true) || !pauseFor(ctx, max(reach.FirstPause, c.pause(failure, number, attempt))) {
				return
			}
		}
	}
}

const eventsPath = "/api/v1/events"

// errLeft means that the caller left the loop.
var errLeft = errors.New("the caller left the loop")

// follow yields the events of one connection, and stores the id of the last event in last. came reports whether an event came.
func (c *Client) follow(ctx context.Context, from reach.Server, token string, last *string, yield func(Event, error) bool) (came bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	made := call{method: http.MethodGet, target: eventsPath, repeatable: true, header: http.Header{"Accept": {"text/event-stream"}}}
	if *last != "" {
		made.header.Set("Last-Event-ID", *last)
	}
	silence := time.AfterFunc(streamSilence, func() { cancel(errors.New("the stream sent nothing for " + streamSilence.String())) })
	defer silence.Stop()
	response, err := c.open(ctx, from, token, made)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }() // the rest of the stream is not needed
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxEventLine)
	var id string
	var data []byte
	for ; lines.Scan(); silence.Reset(streamSilence) {
		line := lines.Bytes()
		switch {
		case len(line) > 0:
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "id":
				id = string(value)
			case "data":
				data = append(data, value...)
			}
		case len(data) > 0:
			event := Event{ID: id}
			if err := json.Unmarshal(data, &event, lenient); err != nil {
				return came, fmt.Errorf("decoding an event: %w", err)
			}
			silence.Stop() // the loop body may take longer
			if came = true; !yield(event, nil) {
				return came, errLeft
			}
			if id != "" {
				*last = id
			}
			id, data = "", nil
		}
	}
	err = lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return came, fmt.Errorf("reading an event: a line has more than %d bytes", maxEventLine)
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return came, &Error{Method: made.method, Path: made.target, URL: from.Printed, cause: err}
}

// Package httpcall sends one HTTP request and reads the whole answer. It is for tests, and for commands in the folder test.
// It does not retry, and no status is an error. Tests of every package may import it.
package httpcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Call is a request. Several goroutines may send the same Call.
type Call struct {
	Method string
	// Target is the path and the query of the request line.
	Target string
	Body   string
	// Token is the value of the header Authorization, or empty.
	Token string
	// Traceparent is the value of the header traceparent, or empty.
	Traceparent string
}

// Reply is a response with its whole body.
type Reply struct {
	Status int
	Header http.Header
	Raw    []byte
	Took   time.Duration
}

// Send sends a call to the server at base. When ctx ends, Send closes the connection, like a client that disconnects. It
// returns an error only if sending or reading fails. A status such as 500 is not an error.
func Send(ctx context.Context, client *http.Client, base string, c Call) (Reply, error) {
	started := time.Now()
	var body io.Reader
	if c.Body != "" {
		body = strings.NewReader(c.Body)
	}
	request, err := http.NewRequestWithContext(ctx, c.Method, base+c.Target, body)
	if err != nil {
		return Reply{}, fmt.Errorf("building %s %s: %w", c.Method, c.Target, err)
	}
	if c.Traceparent != "" {
		request.Header.Set("Traceparent", c.Traceparent)
	}
	if c.Token != "" {
		request.Header.Set("Authorization", c.Token)
	}
	response, err := client.Do(request)
	if err != nil {
		return Reply{}, err
	}
	raw, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return Reply{}, fmt.Errorf("reading the answer to %s %s: %w", c.Method, c.Target, err)
	}
	return Reply{response.StatusCode, response.Header, raw, time.Since(started)}, nil
}

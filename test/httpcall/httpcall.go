// Package httpcall sends one HTTP request and reads the whole answer, for tests and commands below test.
// It has no retries and no opinion about statuses. Tests of every package may import it.
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

// Call is a request, which any goroutine may send.
type Call struct {
	Method string
	// Target is the path and the query of the request line.
	Target string
	Body   string
	// Token is the value of the header Authorization, or empty.
	Token string
}

// Reply is a response with its whole body.
type Reply struct {
	Status int
	Header http.Header
	Raw    []byte
	Took   time.Duration
}

// Send sends a call to the server at base. The end of ctx aborts it like a client that disconnects. The error is of the
// request or of reading the answer, never of its status.
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

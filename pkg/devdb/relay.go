package devdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// relay stands between the library that fetches and the repository. The library
// knows no context, hides why a download failed and goes on without a checksum;
// the relay ends with its context, keeps the first failure and counts a missing
// checksum as one.
type relay struct {
	url        string
	repository string
	client     *http.Client
	server     *http.Server
	served     chan struct{} // closed when the server has ended

	mu      sync.Mutex
	failure error // the first one
}

func newRelay(ctx context.Context, repository string) (*relay, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("preparing to fetch Postgres: %w", err)
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSHandshakeTimeout:   20 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	r := &relay{
		url: "http://" + l.Addr().String(), repository: repository,
		client: &http.Client{Transport: transport}, served: make(chan struct{}),
	}
	r.server = &http.Server{
		Handler: r, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	r.server.SetKeepAlivesEnabled(false) // leaves the library no idle connection
	go func() {
		defer close(r.served)
		_ = r.server.Serve(l) // ends by close
	}()
	return r, nil
}

// ServeHTTP passes one GET on.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	source := strings.TrimSuffix(r.repository, "/") + req.URL.Path
	out, err := http.NewRequestWithContext(req.Context(), http.MethodGet, source, nil)
	if err == nil {
		err = r.pass(w, out)
	}
	if err != nil {
		r.mu.Lock()
		if r.failure == nil {
			r.failure = err
		}
		r.mu.Unlock()
		panic(http.ErrAbortHandler) // cuts the connection: an answer may be half sent
	}
}

func (r *relay) pass(w http.ResponseWriter, out *http.Request) error {
	resp, err := r.client.Do(out)
	if err != nil {
		return err // net/http names the URL and the cause
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", out.URL, resp.Status)
	}
	if length := resp.Header.Get("Content-Length"); length != "" {
		w.Header().Set("Content-Length", length)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("downloading %s: %w", out.URL, err)
	}
	return nil
}

// close ends the relay and returns the first failure.
func (r *relay) close() error {
	err := r.server.Close()
	<-r.served
	r.client.CloseIdleConnections()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return r.failure
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("ending the relay: %w", err)
	}
	return nil
}

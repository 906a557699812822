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

// downloadProxy is an HTTP proxy between the library and the repository. The library has
// no context, hides the reason of a failed download and accepts a missing checksum. The
// proxy ends with its context, keeps the first failure and treats a missing checksum as a
// failure.
type downloadProxy struct {
	url        string
	repository string
	client     *http.Client
	server     *http.Server
	served     chan struct{} // closed when the server has ended

	mu      sync.Mutex
	failure error // the first one
}

func newDownloadProxy(ctx context.Context, repository string) (*downloadProxy, error) {
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
	p := &downloadProxy{
		url: "http://" + l.Addr().String(), repository: repository,
		client: &http.Client{Transport: transport}, served: make(chan struct{}),
	}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	p.server.SetKeepAlivesEnabled(false) // the library must keep no idle connection
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // ends by close
	}()
	return p, nil
}

// ServeHTTP forwards one GET.
func (p *downloadProxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	source := strings.TrimSuffix(p.repository, "/") + req.URL.Path
	out, err := http.NewRequestWithContext(req.Context(), http.MethodGet, source, nil)
	if err == nil {
		err = p.forward(w, out)
	}
	if err != nil {
		p.mu.Lock()
		if p.failure == nil {
			p.failure = err
		}
		p.mu.Unlock()
		panic(http.ErrAbortHandler) // closes the connection: a part of the answer may be sent
	}
}

func (p *downloadProxy) forward(w http.ResponseWriter, out *http.Request) error {
	resp, err := p.client.Do(out)
	if err != nil {
		return err // net/http names the URL and the cause
	}
	defer func() { _ = resp.Body.Close() }() // read completely or abandoned
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

// close stops the proxy and returns the first failure.
func (p *downloadProxy) close() error {
	err := p.server.Close()
	<-p.served
	p.client.CloseIdleConnections()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		return p.failure
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("stopping the download proxy: %w", err)
	}
	return nil
}

package devdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
	"go.uber.org/zap"
)

const (
	mavenCentral = "https://repo1.maven.org/maven2"
	fetchVersion = embedded.V17
	fetchMajor   = "17"
)

// fetcher downloads the programs of Postgres from a Maven repository into cache, one folder
// per version.
type fetcher struct {
	cache      string
	repository string
	log        *zap.Logger
}

// fetch returns the folder with the programs. The first time, it downloads them.
func (f fetcher) fetch(ctx context.Context) (string, error) {
	home := filepath.Join(f.cache, string(fetchVersion))
	binDir := filepath.Join(home, "bin")
	if len(missingPrograms(binDir)) == 0 {
		return binDir, nil
	}
	if err := os.MkdirAll(f.cache, 0o755); err != nil {
		return "", fmt.Errorf("creating the folder for Postgres: %w", err)
	}
	// The work folder is renamed when it is complete. A crash or a second process that
	// downloads at the same time must not leave an incomplete Postgres.
	work, err := os.MkdirTemp(f.cache, "fetch-")
	if err != nil {
		return "", fmt.Errorf("creating the folder for Postgres: %w", err)
	}
	f.log.Info("fetching Postgres once",
		zap.String("version", string(fetchVersion)), zap.String("from", f.repository), zap.String("to", home))
	err = f.extract(ctx, work)
	if err == nil {
		err = moveIntoPlace(filepath.Join(work, "extracted"), home)
	}
	return binDir, errors.Join(err, os.RemoveAll(work))
}

// moveIntoPlace renames the extracted folder to home, unless another process has done so.
func moveIntoPlace(from, home string) error {
	if len(missingPrograms(filepath.Join(home, "bin"))) == 0 {
		return nil
	}
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("clearing an incomplete Postgres: %w", err)
	}
	if err := os.Rename(from, home); err != nil {
		return fmt.Errorf("putting Postgres in place: %w", err)
	}
	return nil
}

// extract downloads the programs and unpacks them into work/extracted. The library can do this only as part of starting a server.
// It would run initdb as the current user, which fails for root. Therefore extract gives the library a decoy: a data folder that
// looks initialized. The library skips initdb and fails to start a server on the decoy. extract ignores that failure if the
// programs are there.
func (f fetcher) extract(ctx context.Context, work string) error {
	extracted, decoy := filepath.Join(work, "extracted"), filepath.Join(work, "decoy")
	if err := os.Mkdir(decoy, 0o700); err != nil {
		return fmt.Errorf("preparing to fetch Postgres: %w", err)
	}
	if err := os.WriteFile(filepath.Join(decoy, "PG_VERSION"), []byte(fetchMajor+"\n"), 0o600); err != nil {
		return fmt.Errorf("preparing to fetch Postgres: %w", err)
	}
	proxy, err := newDownloadProxy(ctx, f.repository)
	if err != nil {
		return err
	}
	server := embedded.NewDatabase(embedded.DefaultConfig().
		Version(fetchVersion).
		Port(0).
		CachePath(filepath.Join(work, "archive")).
		RuntimePath(filepath.Join(work, "runtime")).
		DataPath(decoy).
		BinariesPath(extracted).
		BinaryRepositoryURL(proxy.url).
		Logger(io.Discard))
	started := server.Start()
	if started == nil {
		err = server.Stop()
	}
	if err = errors.Join(err, proxy.close()); err != nil {
		return fmt.Errorf("fetching Postgres %s from %s: %w", fetchVersion, f.repository, err)
	}
	if missing := missingPrograms(filepath.Join(extracted, "bin")); len(missing) > 0 {
		return fmt.Errorf("unpacking Postgres %s from %s: %v are missing: %w", fetchVersion, f.repository, missing, started)
	}
	return nil
}

// downloadProxy is an HTTP proxy between the library and the repository. The library has no context, hides the reason of a failed
// download and accepts a missing checksum. The proxy ends with its context and keeps the first failure. It treats a missing
// checksum as a failure.
type downloadProxy struct {
	url        string
	repository string
	client     *http.Client
	server     *http.Server
	served     chan struct{} // closed when the server has ended

	mu      sync.Mutex
	failure error // the first failure
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
		_ = p.server.Serve(l) // ends when close is called
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
	defer func() { _ = resp.Body.Close() }() // the body was read completely, or is not needed
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

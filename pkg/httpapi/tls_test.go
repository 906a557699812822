package httpapi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
	"github.com/belfry-mq/belfry/test/testcert"
)

// secure has the files of a server with TLS.
type secure struct {
	t         *testing.T
	ca        *testcert.CA
	dir       string
	cert, key string
}

func newSecure(t *testing.T) *secure {
	t.Helper()
	dir := t.TempDir()
	f := &secure{t: t, ca: testcert.NewCA(t), dir: dir, cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	f.use(1)
	return f
}

// use replaces the certificate and the key of the server.
func (f *secure) use(serial int64) {
	f.t.Helper()
	pair := f.ca.Pair(f.t, serial, pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	testcert.Write(f.t, f.dir, "tls.crt", pair.Cert)
	testcert.Write(f.t, f.dir, "tls.key", pair.Key)
}

func (f *secure) edit(cfg *httpapi.Config, _ *httpapi.Deps) {
	cfg.TLSCertFile, cfg.TLSKeyFile = f.cert, f.key
}

// client returns the settings of a client that trusts the CA of the server.
func (f *secure) client(pairs ...testcert.Pair) *tls.Config {
	f.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	require.True(f.t, config.RootCAs.AppendCertsFromPEM(f.ca.PEM))
	for _, pair := range pairs {
		loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
		require.NoError(f.t, err)
		config.Certificates = append(config.Certificates, loaded)
	}
	return config
}

// The time limits apply over TLS too: a pop may wait, a slow body gets 408, and a client that stops reading
// loses its lease.
func TestTimeLimitsApplyOverTLS(t *testing.T) {
	t.Parallel()
	f, leases := newSecure(t), releases{released: make(chan queue.ID, 1)}
	delivery := apitest.OneMessage()
	s, _ := apitest.Server(&apitest.Fakes{Pop: func(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
		if req.Queue == "large" {
			return large(), nil
		}
		return delivery, wait(ctx)
	}}, withLimits, f.edit, func(_ *httpapi.Config, deps *httpapi.Deps) {
		leases.Popper = deps.Popper
		deps.Popper = leases
	})
	c := serveTLS(t, s, f.client())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/api/v1/pop/queue/q?wait=true", http.NoBody)
	require.NoError(t, err)
	resp, err := c.http.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "HTTP/1.1", resp.Proto, "the server uses HTTP/1.1 although the client offers HTTP/2")

	slow := c.dial()
	slow.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n1")
	require.Equal(t, http.StatusRequestTimeout, slow.answer().status)
	slow.closed()
	unread := c.dial()
	unread.send("GET /api/v1/pop/queue/large HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, apitest.IDThree, within(t, leases.released))
}

func TestOldTLSAndForeignCAsAreRefused(t *testing.T) {
	t.Parallel()
	f := newSecure(t)
	s, _ := apitest.Server(&apitest.Fakes{}, f.edit)
	c := serveTLS(t, s, f.client())
	require.Equal(t, http.StatusOK, c.get("/health").status)
	for want, edit := range map[string]func(*tls.Config){
		"protocol version":  func(config *tls.Config) { config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
		"unknown authority": func(config *tls.Config) { config.RootCAs = x509.NewCertPool() },
	} {
		config := f.client()
		edit(config)
		other := &client{t: t, base: c.base, http: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}}
		require.ErrorContains(t, other.try("/health").err, want)
	}
	plain := &client{t: t, base: strings.Replace(c.base, "https", "http", 1), http: &http.Client{Transport: &http.Transport{}}}
	require.Equal(t, http.StatusBadRequest, plain.get("/health").status)
	require.Contains(t, c.get("/metrics/prometheus").body, "belfry_tls_certificate_expires_seconds")
}

// parallelPusher is a Pusher for concurrent calls. apitest.Fakes cannot be used, because it records calls without a lock.
type parallelPusher struct{}

func (parallelPusher) Push(_ context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	return make([]queue.PushResult, len(items)), nil
}

// The certificate and its key are replaced while 50 clients push, each over a new connection. No push fails.
func TestCertificateIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	f := newSecure(t)
	s, _ := apitest.Server(&apitest.Fakes{}, f.edit, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Pusher = parallelPusher{} })
	c := serveTLS(t, s, f.client())
	var (
		pushing sync.WaitGroup
		stop    atomic.Bool
		pushed  atomic.Int64
		failed  sync.Map
	)
	for i := range 50 {
		transport := &http.Transport{TLSClientConfig: f.client(), DisableKeepAlives: i%2 == 0}
		t.Cleanup(transport.CloseIdleConnections)
		pushing.Go(func() {
			own := &client{t: t, base: c.base, http: &http.Client{Transport: transport}}
			for !stop.Load() {
				if got := own.send(http.MethodPost, c.base+"/api/v1/push", apitest.OnePush); got.err != nil || got.status != http.StatusCreated {
					failed.Store(fmt.Sprint(got.status, got.err), true)
				}
				pushed.Add(1)
			}
		})
	}
	served := func() int64 {
		conn, err := (&tls.Dialer{Config: f.client()}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.base, "https://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		secured, ok := conn.(*tls.Conn)
		require.True(t, ok)
		return secured.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	require.EqualValues(t, 1, served())
	f.use(2)
	require.Eventually(t, func() bool { return served() == 2 }, 30*time.Second, 20*time.Millisecond)
	stop.Store(true)
	pushing.Wait()
	failed.Range(func(failure, _ any) bool {
		t.Error(failure)
		return true
	})
	require.Greater(t, pushed.Load(), int64(50))
}

func TestClientCertificateNamesThePrincipal(t *testing.T) {
	t.Parallel()
	f, foreign := newSecure(t), testcert.NewCA(t)
	clientCA := testcert.Write(t, f.dir, "clients.crt", f.ca.PEM)
	inAnHour := time.Now().Add(time.Hour)
	named := f.ca.Pair(t, 2, pkix.Name{CommonName: "billing", Organization: []string{"acme"}}, inAnHour)
	unnamed := f.ca.Pair(t, 3, pkix.Name{Organization: []string{"acme"}}, inAnHour)
	expired := f.ca.Pair(t, 4, pkix.Name{CommonName: "billing"}, time.Now().Add(-time.Hour))
	forged := foreign.Pair(t, 5, pkix.Name{CommonName: "billing"}, inAnHour)
	for _, auth := range []string{"required", "optional"} {
		who := make(chan *identity.Principal, 1)
		s, _ := apitest.Server(&apitest.Fakes{Pop: func(ctx context.Context, _ *queue.PopRequest) (queue.Delivery, error) {
			who <- identity.From(ctx)
			return queue.Delivery{}, nil
		}}, f.edit, func(cfg *httpapi.Config, _ *httpapi.Deps) {
			cfg.TLSClientCAFile, cfg.TLSClientAuth, cfg.TLSClientRole = clientCA, auth, "read-write"
		})
		c := serveTLS(t, s, f.client())
		pop := func(pairs ...testcert.Pair) (*identity.Principal, error) {
			config := f.client()
			if len(pairs) > 0 { // the client sends its certificate even if the server does not name the CA
				loaded := f.client(pairs...).Certificates[0]
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &loaded, nil }
			}
			transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
			own := &client{t: t, base: c.base, http: &http.Client{Transport: transport}}
			switch got := own.try("/api/v1/pop/queue/q"); {
			case got.err != nil:
				return nil, got.err
			case got.status == http.StatusUnauthorized:
				return nil, nil
			}
			require.Equal(t, http.StatusForbidden, own.send(http.MethodDelete, c.base+"/api/v1/resources/queues/q", "").status, "only admins delete")
			return within(t, who), nil
		}
		got, err := pop(named)
		require.NoError(t, err)
		require.NoError(t, got.Check())
		got.Check = nil
		require.Equal(t, &identity.Principal{Subject: "billing", Role: identity.ReadWrite, EndsAt: inAnHour.UTC().Truncate(time.Second)}, got)
		got, err = pop(unnamed)
		require.NoError(t, err)
		require.Equal(t, "O=acme", got.Subject)
		for _, bad := range []testcert.Pair{expired, forged} {
			_, err = pop(bad)
			require.Error(t, err, auth)
		}
		got, err = pop()
		if auth == "required" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Nil(t, got)
	}
}

// If a client certificate expires, the connection stays open, but the rights end.
func TestRightsEndWithTheClientCertificate(t *testing.T) {
	t.Parallel()
	f := newSecure(t)
	clientCA := testcert.Write(t, f.dir, "clients.crt", f.ca.PEM)
	brief := f.ca.Pair(t, 2, pkix.Name{CommonName: "billing"}, time.Now().Add(5*time.Second))
	waits := make(chan *queue.PopRequest, 1)
	s, _ := apitest.Server(&apitest.Fakes{Pop: func(_ context.Context, req *queue.PopRequest) (queue.Delivery, error) {
		waits <- req
		return queue.Delivery{}, nil
	}}, f.edit, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.TLSClientCAFile, cfg.TLSClientAuth, cfg.TLSClientRole = clientCA, "optional", "read-write"
	})
	c := serveTLS(t, s, f.client(brief))
	require.Equal(t, http.StatusNoContent, c.try("/api/v1/pop/queue/q?wait=true&timeout=60000").status)
	first := within(t, waits)
	require.WithinDuration(t, time.Now(), first.RightsEnd, 5*time.Second)
	require.Eventually(t, func() bool { return first.Valid() != nil }, 30*time.Second, time.Millisecond)
	require.Equal(t, http.StatusUnauthorized, c.try("/api/v1/pop/queue/q").status)
}

// The server closes connections whose handshake does not end. Until then they count as connections.
func TestSlowHandshakesAreLimited(t *testing.T) {
	t.Parallel()
	f := newSecure(t)
	s, _ := apitest.Server(&apitest.Fakes{}, f.edit, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.MaxConnections = 1 })
	s.SetHeaderTimeout(4 * limit)
	c := serveTLS(t, s, f.client())
	plain := &client{t: t, base: c.base}
	first := plain.dial()
	first.send("\x16\x03\x01\x40\x00") // the head of the longest record
	go first.trickle()
	require.Error(t, c.try("/health").err, "a connection in a handshake counts for http.max_connections")
	first.closed()
	require.Eventually(t, func() bool { return c.try("/health").status == http.StatusOK }, 30*time.Second, time.Millisecond)
	require.Contains(t, c.get("/metrics/prometheus").body, "belfry_http_connections_refused_total")
}

func TestServerWithUnusableCertificateDoesNotListen(t *testing.T) {
	t.Parallel()
	f := newSecure(t)
	testcert.Write(t, f.dir, "tls.key", []byte("nothing"))
	s, _ := apitest.Server(&apitest.Fakes{}, f.edit)
	_, err := s.Listen(t.Context())
	require.ErrorContains(t, err, f.key+" (http.tls_key_file)")
}

// The internal address serves only probes and metrics, without TLS.
func TestInternalAddressServesOnlyProbesAndMetrics(t *testing.T) {
	t.Parallel()
	f := newSecure(t)
	fakes := &apitest.Fakes{}
	s, _ := apitest.Server(fakes, f.edit, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.InternalAddr, cfg.MaxConnections = "127.0.0.1:0", 1
	})
	c := serveTLS(t, s, f.client())
	c.dial().send("GET /health") // uses the only allowed connection of the main address
	served := 0
	for _, route := range s.Routes() {
		got := c.send(route.Method, c.internal+route.Path, "")
		require.NoError(t, got.err)
		switch route.Path {
		case "/livez", "/readyz", "/health", "/metrics/prometheus":
			require.Equal(t, http.StatusOK, got.status, route.Path)
			served++
		default:
			require.Equal(t, http.StatusNotFound, got.status, route.Path)
		}
	}
	require.Equal(t, 7, served)
	require.False(t, fakes.Reached())
	s.Drain()
	require.Equal(t, http.StatusServiceUnavailable, c.send(http.MethodGet, c.internal+"/readyz", "").status)
	c.http.CloseIdleConnections()
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, within(t, c.served))
	require.Error(t, c.send(http.MethodGet, c.internal+"/livez", "").err)
}

func TestConfigOfTLSIsChecked(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*httpapi.Config){
		"http.tls_key_file is empty":              func(cfg *httpapi.Config) { cfg.TLSCertFile = "/c" },
		"http.tls_cert_file is empty":             func(cfg *httpapi.Config) { cfg.TLSKeyFile = "/k" },
		`http.tls_client_ca_file is "/ca"`:        func(cfg *httpapi.Config) { cfg.TLSClientCAFile = "/ca" },
		`http.tls_client_auth is "maybe"`:         func(cfg *httpapi.Config) { cfg.TLSClientAuth = "maybe" },
		`http.tls_client_role is "none": it must`: func(cfg *httpapi.Config) { cfg.TLSClientRole = "none" },
		`http.internal_addr is "6633": it must`:   func(cfg *httpapi.Config) { cfg.InternalAddr = "6633" },
	} {
		cfg := httpapi.DefaultConfig()
		edit(&cfg)
		require.ErrorContains(t, cfg.Validate(), want)
	}
}

package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/belfry-mq/belfry/pkg/client/reach"
	"github.com/belfry-mq/belfry/pkg/client/spans"
)

const (
	defaultRetryFor       = 30 * time.Second
	defaultRequestTimeout = 30 * time.Second
	// maxIdlePerHost is the number of unused connections that the default transport keeps for each server.
	maxIdlePerHost = 256
)

// Config are the settings of a client. Only URLs is required.
type Config struct {
	// URLs are the servers, such as http://localhost:6632. The client uses the first server. If a server is not available, the
	// client changes to the next server in the list, and after the last server to the first. To share the load, begin the list
	// with a different server in each process. If Token is nil, the client sends the user and the password of a URL with HTTP
	// Basic. Errors and logs do not show them.
	URLs []string
	// Token returns the bearer token of requests. If it is nil, requests have no token.
	Token TokenFunc
	// HTTPClient sends the requests. Its Timeout must be 0, because a timeout would end long polls. Its Transport can set TLS
	// certificates and proxies. If HTTPClient is nil, New creates a client with the TLS settings of this machine.
	HTTPClient *http.Client
	// RetryFor limits the repetitions of a call: the client starts no repetition later than RetryFor after the start of the
	// call. 0 means 30 seconds, and a negative value means no repetition. If a server is not available, a call tries each of
	// the other servers once in any case. Consume and Messages repeat their pops without a limit.
	RetryFor time.Duration
	// RequestTimeout limits one attempt. For a pop, the client adds the Wait of the pop. 0 means 30 seconds.
	RequestTimeout time.Duration
	// Log gets a warning for each repeated request and each failed handler. If it is nil, the client logs nothing.
	Log *slog.Logger
	// TracerProvider makes OpenTelemetry spans, such as otel.GetTracerProvider(). If it is nil, the client makes no spans. The span of
	// a context travels with requests and messages in any case.
	TracerProvider trace.TracerProvider
	// OnOutage is called when a call has had no connection to a server for two seconds. Each call of the client calls it at
	// most once, in a separate goroutine. While a server processes the request, OnOutage is not called. It may be nil.
	OnOutage func(Outage)
}

// Client sends requests to the instances of Belfry that share one database. It is safe for concurrent use.
type Client struct {
	http           *http.Client
	servers        *reach.Servers
	tokens         *reach.Tokens
	retryFor       time.Duration
	requestTimeout time.Duration
	log            *slog.Logger
	onOutage       func(Outage)
	spans          spans.Maker
}

// New returns a client:
//
//	c, err := client.New(client.Config{URLs: []string{"http://localhost:6632"}})
//
// New sends no request. It fails if a URL is not valid or HTTPClient has a Timeout.
func New(config Config) (*Client, error) {
	if len(config.URLs) == 0 {
		return nil, errors.New("a client needs the URL of a server")
	}
	servers, err := reach.NewServers(config.URLs)
	if err != nil {
		return nil, err
	}
	c := &Client{
		http: config.HTTPClient, servers: servers, tokens: reach.NewTokens(config.Token),
		retryFor: config.RetryFor, requestTimeout: config.RequestTimeout, log: config.Log,
		onOutage: config.OnOutage, spans: spans.New(config.TracerProvider),
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	if c.http.Timeout != 0 {
		return nil, errors.New("the Timeout of HTTPClient must be 0, because a timeout would end long polls: use RequestTimeout")
	}
	if c.retryFor == 0 {
		c.retryFor = defaultRetryFor
	}
	if c.requestTimeout == 0 {
		c.requestTimeout = defaultRequestTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Close closes the unused connections. It does not end running calls. The client may be used after Close.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func newTransport() http.RoundTripper {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = standard.Clone()
	}
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, maxIdlePerHost
	transport.DisableCompression = true
	return transport
}

// pauseFor blocks for a duration and returns true. If ctx ends earlier, it returns false at once.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

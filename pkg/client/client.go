package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

const (
	defaultRetryFor       = 30 * time.Second
	defaultRequestTimeout = 30 * time.Second
	// maxIdlePerHost is the number of unused connections that the default transport keeps for each server.
	maxIdlePerHost = 256
)

// Config are the settings of a client. Only URLs is required.
type Config struct {
	// URLs are the servers, such as http://localhost:6632. The first one is used until it is not available, then the next
	// one, and after the last one the first. To share the load, begin with another one in each process. The user and the
	// password of a URL are sent with HTTP Basic if Token is nil. Errors and logs do not have them.
	URLs []string
	// Token returns the bearer token of requests. nil sends none.
	Token TokenFunc
	// HTTPClient sends the requests. Its Timeout must be 0, because it would end long polls. Use its Transport for TLS
	// certificates and proxies. nil is a client of its own with the TLS settings of this machine.
	HTTPClient *http.Client
	// RetryFor is how long after its begin a call is repeated. 0 is 30 seconds, and a negative value repeats nothing. If a
	// server is not available, a call tries each of the others once in any case.
	// Consume and Messages repeat their pops without a limit.
	RetryFor time.Duration
	// RequestTimeout bounds one attempt. The wait of a pop is added to it. 0 is 30 seconds.
	RequestTimeout time.Duration
	// Log gets a warning for each repeated request and each failed handler. nil logs nothing.
	Log *slog.Logger
	// OnOutage is called once when a call has had no server for two seconds, from a goroutine of its own. It is not called
	// while a server has the request, however long that takes. Each call of the client calls it by itself. nil does nothing.
	OnOutage func(Outage)
}

// Client sends requests to the servers of one Belfry. It is safe for concurrent use.
type Client struct {
	http           *http.Client
	servers        *servers
	tokens         *tokens
	retryFor       time.Duration
	requestTimeout time.Duration
	log            *slog.Logger
	onOutage       func(Outage)
}

// New returns a client:
//
//	c, err := client.New(client.Config{URLs: []string{"http://localhost:6632"}})
//
// It sends nothing. It fails if a URL is not valid or HTTPClient has a Timeout.
func New(config Config) (*Client, error) {
	if len(config.URLs) == 0 {
		return nil, errors.New("a client needs the URL of a server")
	}
	all := make([]server, len(config.URLs))
	for i, text := range config.URLs {
		var err error
		if all[i], err = parseServer(text); err != nil {
			return nil, err
		}
	}
	c := &Client{
		http: config.HTTPClient, servers: &servers{all: all}, tokens: newTokens(config.Token),
		retryFor: config.RetryFor, requestTimeout: config.RequestTimeout, log: config.Log,
		onOutage: config.OnOutage,
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	if c.http.Timeout != 0 {
		return nil, errors.New("the Timeout of HTTPClient must be 0: it would end long polls; use RequestTimeout")
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

// Close closes the unused connections. It does not end calls that run. The client may be used again.
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

// pauseFor blocks for a time, and returns false at once when ctx ends.
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

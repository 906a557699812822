package httpapi

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
)

// Config is the section "http".
type Config struct {
	// Addr is the listen address, host:port. An empty host means all interfaces.
	Addr string `mapstructure:"addr"`
	// InternalAddr is a second listen address, for probes and metrics without TLS. Empty means no second address.
	InternalAddr string `mapstructure:"internal_addr"`
	// TLSCertFile and TLSKeyFile are the files of the certificate and its key. If they are empty, Addr serves HTTP without TLS.
	TLSCertFile string `mapstructure:"tls_cert_file"`
	TLSKeyFile  string `mapstructure:"tls_key_file"`
	// TLSClientCAFile has the CAs that sign client certificates. If it is empty, clients need no certificate.
	TLSClientCAFile string `mapstructure:"tls_client_ca_file"`
	// TLSClientAuth is required or optional.
	TLSClientAuth string `mapstructure:"tls_client_auth"`
	// TLSClientRole is the role of a client with a certificate and without a token.
	TLSClientRole string `mapstructure:"tls_client_role"`
	// MaxBodyBytes limits a request body. A larger body gets 413.
	MaxBodyBytes int64 `mapstructure:"max_body_bytes"`
	// MaxResponseBytes limits the answer of a pop and a page of a list. An answer has at least one message or row, even if it
	// is larger.
	MaxResponseBytes int64 `mapstructure:"max_response_bytes"`
	// MaxInflightBytes limits the memory of all requests and answers in flight. One request of
	// the largest size always fits. See pkg/process/inflight.
	MaxInflightBytes int64 `mapstructure:"max_inflight_bytes"`
	// DrainDelay is how long a stopping server still accepts new requests after /readyz answers 503.
	DrainDelay time.Duration `mapstructure:"drain_delay"`
	// ShutdownTimeout limits how long a stopping server waits for requests in flight.
	ShutdownTimeout time.Duration `mapstructure:"shutdown_timeout"`
	// BodyTimeout limits how long a client may take to send a body. A slower client gets 408.
	BodyTimeout time.Duration `mapstructure:"body_timeout"`
	// WriteTimeout limits how long a client may take to read an answer.
	WriteTimeout time.Duration `mapstructure:"write_timeout"`
	// MaxConnections limits the open connections. Further connections get 503.
	MaxConnections int `mapstructure:"max_connections"`
	// MaxHeaderBytes limits the headers of a request. Larger headers get 431.
	MaxHeaderBytes int64 `mapstructure:"max_header_bytes"`
	// MaxItems, MaxPartitions and MaxAcks limit the content of one call; see data.Limits.
	MaxItems      int `mapstructure:"max_items"`
	MaxPartitions int `mapstructure:"max_partitions"`
	MaxAcks       int `mapstructure:"max_acks"`
	// AllowAnyJSON accepts JSON that some clients cannot read; see pkg/engine/portable.
	AllowAnyJSON bool `mapstructure:"allow_any_json"`
	// CORSOrigins are the origins whose pages may send requests. * means every origin.
	CORSOrigins []string `mapstructure:"cors_origins"`
	// AllowedHosts are the host names under which browsers may use a server that requires no token. * means every name. See
	// hosts.
	AllowedHosts []string `mapstructure:"allowed_hosts"`
	// TrustedProxies are the networks of proxies. The server trusts X-Forwarded-For in requests from these networks.
	TrustedProxies []string `mapstructure:"trusted_proxies"`
	// Compression compresses pages and answers with figures; see Server.compressed.
	Compression bool `mapstructure:"compression"`
	// AccessLog logs each request at the level debug.
	AccessLog bool `mapstructure:"access_log"`
}

// The largest values of http.max_connections and http.max_header_bytes.
const (
	maxConnections = 1_000_000
	maxHeaderBytes = 16 << 20
)

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		Addr: ":6632", TLSClientAuth: clientRequired, TLSClientRole: identity.ReadOnly.String(), MaxBodyBytes: 16 << 20, MaxResponseBytes: 16 << 20, MaxInflightBytes: 256 << 20,
		DrainDelay: 5 * time.Second, ShutdownTimeout: 10 * time.Second,
		BodyTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second, MaxConnections: 30_000, MaxHeaderBytes: 64 << 10,
		MaxItems: 50_000, MaxPartitions: 10_000, MaxAcks: 50_000, Compression: true,
	}
}

// Validate returns an error that lists every invalid value.
func (c Config) Validate() error {
	errs := append(checkOrigins(c.CORSOrigins), checkProxies(c.TrustedProxies)...)
	errs = append(errs, checkHosts(c.AllowedHosts)...)
	errs = append(errs, checkAddr("http.addr", c.Addr), c.checkTLS())
	if c.InternalAddr != "" {
		errs = append(errs, checkAddr("http.internal_addr", c.InternalAddr),
			setting.Check(!meet(c.Addr, c.InternalAddr), "http.internal_addr is %q: its port must differ from the port of http.addr, which is %q", c.InternalAddr, c.Addr))
	}
	if c.MaxBodyBytes < 1024 {
		errs = append(errs, fmt.Errorf("http.max_body_bytes is %d: it must be at least 1024", c.MaxBodyBytes))
	}
	if c.MaxResponseBytes < 1024 || c.MaxResponseBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("http.max_response_bytes is %d: it must be from 1024 to 1GiB", c.MaxResponseBytes))
	}
	if c.MaxInflightBytes < 1024 {
		errs = append(errs, fmt.Errorf("http.max_inflight_bytes is %d: it must be at least 1024", c.MaxInflightBytes))
	}
	for _, timeout := range []struct {
		key   string
		value time.Duration
	}{{"shutdown_timeout", c.ShutdownTimeout}, {"body_timeout", c.BodyTimeout}, {"write_timeout", c.WriteTimeout}} {
		if timeout.value <= 0 {
			errs = append(errs, fmt.Errorf("http.%s is %s: it must be positive", timeout.key, timeout.value))
		}
	}
	if c.DrainDelay < 0 {
		errs = append(errs, fmt.Errorf("http.drain_delay is %s: it must not be negative", c.DrainDelay))
	}
	if c.MaxConnections < 1 || c.MaxConnections > maxConnections {
		errs = append(errs, fmt.Errorf("http.max_connections is %d: it must be between 1 and %d", c.MaxConnections, maxConnections))
	}
	if c.MaxHeaderBytes < 4096 || c.MaxHeaderBytes > maxHeaderBytes {
		errs = append(errs, fmt.Errorf("http.max_header_bytes is %d: it must be between 4096 and %d", c.MaxHeaderBytes, maxHeaderBytes))
	}
	errs = append(errs, setting.AtLeast("http.max_items", c.MaxItems, 1), setting.AtLeast("http.max_partitions", c.MaxPartitions, 1),
		setting.AtLeast("http.max_acks", c.MaxAcks, 1))
	return errors.Join(errs...)
}

// inflightBytes returns MaxInflightBytes, but at least the memory that one request of the largest size needs.
func (c Config) inflightBytes() int64 {
	return max(c.MaxInflightBytes, 2*c.MaxBodyBytes*inflight.BodyCopies, 2*c.MaxResponseBytes*inflight.AnswerCopies)
}

// meet reports whether the two addresses conflict, so that a machine cannot listen on both.
func meet(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a) // checkAddr returns the errors
	hostB, portB, _ := net.SplitHostPort(b)
	all := func(host string) bool { ip := net.ParseIP(host); return host == "" || ip != nil && ip.IsUnspecified() }
	return portA == portB && portA != "0" && portA != "" && (hostA == hostB || all(hostA) || all(hostB))
}

// checkAddr returns an error if addr does not have the form host:port.
func checkAddr(key, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s is %q: it must be host:port or :port, with a number as port and an IPv6 host in brackets", key, addr)
	}
	return nil
}

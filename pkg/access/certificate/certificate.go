// Package certificate provides the TLS settings of a server from files: a certificate, a key and, for
// client certificates, a CA. It reads the files again when they change.
//
// A handshake never uses a certificate with the key of another certificate. If changed files cannot be used, the package logs
// an error once and continues with the previous files.
package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// checkInterval is the minimum time between two reads of the files.
const checkInterval = 2 * time.Second

// Files are the paths of PEM files.
type Files struct {
	// Cert has the certificate of the server, followed by the CAs between the certificate and the root.
	Cert string
	// Key has the private key of Cert.
	Key string
	// ClientCA has the CAs that sign client certificates. If it is empty, clients need no certificate.
	ClientCA string
	// ClientOptional means that clients without a certificate are served too.
	ClientOptional bool
}

// Source gives each handshake the current certificate. It is safe for concurrent use.
type Source struct {
	files Files
	now   func() time.Time
	log   *zap.Logger

	mu      sync.Mutex
	checked time.Time   // when the files were read, under mu
	seen    [3][]byte   // the content of the files at that time, under mu
	failure string      // why the content could not be used, or empty, under mu
	config  *tls.Config // under mu; never changed, only replaced
	expires time.Time   // when the certificate of config expires, under mu
}

// Open reads the files. An error names the file that cannot be used. An expired certificate is not an error,
// because some clients may accept it. Open only logs a warning.
func Open(files Files, now func() time.Time, log *zap.Logger) (*Source, error) {
	s := &Source{files: files, now: now, log: log, checked: now()}
	content, err := s.read()
	if err != nil {
		return nil, err
	}
	if s.config, s.expires, err = s.parse(content); err != nil {
		return nil, err
	}
	s.seen = content
	if !now().Before(s.expires) {
		log.Warn("the TLS certificate has expired; clients will refuse it", zap.String("file", files.Cert), zap.Time("expired", s.expires))
	}
	return s, nil
}

// Config returns the TLS settings of a server. Each handshake gets the current certificate.
func (s *Source) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config, _ := s.present()
			return config, nil
		},
	}
}

// Expires returns when the first certificate of the current chain expires.
func (s *Source) Expires() time.Time {
	_, expires := s.present()
	return expires
}

// present returns the current settings and when they expire. It reads the files again if the last read is older than checkInterval.
func (s *Source) present() (*tls.Config, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.checked) >= checkInterval {
		s.checked = now
		s.reload()
	}
	return s.config, s.expires
}

// reload uses the files if they have changed. The caller holds mu.
func (s *Source) reload() {
	content, err := s.read()
	if err == nil && slices.EqualFunc(content[:], s.seen[:], bytes.Equal) {
		s.failure = "" // the files have their previous content again
		return
	}
	var config *tls.Config
	var expires time.Time
	if err == nil {
		s.seen = content
		config, expires, err = s.parse(content)
	}
	if err != nil {
		// While an operator replaces the two files, the key is not the key of the certificate for a short time.
		// So the same failure is logged only once.
		if s.failure != err.Error() {
			s.log.Error("the changed TLS files cannot be used; the server continues with the previous files", zap.Error(err), zap.Time("expires", s.expires))
		}
		s.failure = err.Error()
		return
	}
	s.config, s.expires, s.failure = config, expires, ""
	s.log.Info("the TLS files were read again", zap.String("file", s.files.Cert), zap.Time("expires", expires))
}

// read returns the content of the files: certificate, key and CA.
func (s *Source) read() (content [3][]byte, err error) {
	for i, file := range []struct{ key, path string }{
		{"http.tls_cert_file", s.files.Cert}, {"http.tls_key_file", s.files.Key}, {"http.tls_client_ca_file", s.files.ClientCA},
	} {
		if file.path == "" {
			continue
		}
		if content[i], err = os.ReadFile(file.path); err != nil {
			return content, fmt.Errorf("reading %s: %w", file.key, err)
		}
	}
	return content, nil
}

// parse returns the settings of a handshake, and when the first certificate of the chain expires.
func (s *Source) parse(content [3][]byte) (*tls.Config, time.Time, error) {
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the pair %s (http.tls_cert_file) and %s (http.tls_key_file): %w", s.files.Cert, s.files.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		NextProtos: []string{"http/1.1"}, // see httpapi.Server
	}
	if s.files.ClientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(content[2]) {
			return nil, time.Time{}, fmt.Errorf("reading %s (http.tls_client_ca_file): %w", s.files.ClientCA, errNoCertificate)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		if s.files.ClientOptional {
			config.ClientAuth = tls.VerifyClientCertIfGiven
		}
		// A resumed session would skip the check of the client certificate.
		config.SessionTicketsDisabled = true
	}
	expires, err := firstExpiry(pair)
	return config, expires, err
}

var errNoCertificate = errors.New("it has no certificate in PEM form")

// firstExpiry returns when the first certificate of a chain expires.
func firstExpiry(pair tls.Certificate) (first time.Time, err error) {
	for _, der := range pair.Certificate {
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			return time.Time{}, fmt.Errorf("reading a certificate of the chain (http.tls_cert_file): %w", err)
		}
		if first.IsZero() || parsed.NotAfter.Before(first) {
			first = parsed.NotAfter
		}
	}
	return first, nil
}

// Client returns the settings of a client that trusts only the CAs in a PEM file. An empty path
// means the CAs of this machine. The certificate of a server is always verified.
func Client(caFile string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return config, nil
	}
	content, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the file of the CA: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("reading the file of the CA %s: %w", caFile, errNoCertificate)
	}
	return config, nil
}

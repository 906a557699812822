package contexts

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
)

// Trust returns an HTTP client that trusts only the CAs of a PEM file.
func Trust(caFile string) (*http.Client, error) {
	pem, err := os.ReadFile(caFile) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("--ca-file has no certificate: " + caFile)
	}
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}, nil
}

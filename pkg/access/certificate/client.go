package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

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

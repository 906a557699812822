package httpapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/certificate"
	"github.com/belfry-mq/belfry/pkg/access/identity"
)

// The values of http.tls_client_auth.
const (
	clientRequired = "required"
	clientOptional = "optional"
)

// HasTLS reports whether http.addr serves HTTPS.
func (c Config) HasTLS() bool { return c.TLSCertFile != "" }

// checkTLS checks the settings of TLS. It does not read the files; Server.Listen reads them.
func (c Config) checkTLS() error {
	var errs []error
	switch {
	case c.TLSCertFile != "" && c.TLSKeyFile == "":
		errs = append(errs, errors.New("http.tls_key_file is empty: it must name the key of http.tls_cert_file"))
	case c.TLSCertFile == "" && c.TLSKeyFile != "":
		errs = append(errs, errors.New("http.tls_cert_file is empty: it must name the certificate of http.tls_key_file"))
	case c.TLSClientCAFile != "" && !c.HasTLS():
		errs = append(errs, fmt.Errorf("http.tls_client_ca_file is %q: it needs http.tls_cert_file and http.tls_key_file", c.TLSClientCAFile))
	}
	if c.TLSClientAuth != clientRequired && c.TLSClientAuth != clientOptional {
		errs = append(errs, fmt.Errorf("http.tls_client_auth is %q: it must be required or optional", c.TLSClientAuth))
	}
	if _, ok := identity.RoleNamed(c.TLSClientRole); !ok {
		errs = append(errs, fmt.Errorf("http.tls_client_role is %q: it must be read-only, read-write or admin", c.TLSClientRole))
	}
	return errors.Join(errs...)
}

// CertificateFiles returns the paths of the TLS files. They are empty if HasTLS is false.
func (c Config) CertificateFiles() certificate.Files {
	return certificate.Files{Cert: c.TLSCertFile, Key: c.TLSKeyFile, ClientCA: c.TLSClientCAFile, ClientOptional: c.TLSClientAuth == clientOptional}
}

// openTLS reads the files of the certificate, if there are any.
func (s *Server) openTLS() error {
	if !s.cfg.HasTLS() {
		return nil
	}
	source, err := certificate.Open(s.cfg.CertificateFiles(), time.Now, s.start.Log)
	if err != nil {
		return err
	}
	s.http.TLSConfig = source.Config()
	s.start.Metrics.certificateExpires(source.Expires)
	return nil
}

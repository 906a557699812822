package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/certificate"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The values of http.tls_client_auth.
const (
	clientRequired = "required"
	clientOptional = "optional"
)

// HasTLS reports whether http.addr serves HTTPS.
func (c Config) HasTLS() bool { return c.TLSCertFile != "" }

// checkTLS does not read the files: see Server.Listen.
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
	if _, ok := roleNamed(c.TLSClientRole); !ok {
		errs = append(errs, fmt.Errorf("http.tls_client_role is %q: it must be read-only, read-write or admin", c.TLSClientRole))
	}
	return errors.Join(errs...)
}

func roleNamed(name string) (identity.Role, bool) {
	for _, role := range []identity.Role{identity.ReadOnly, identity.ReadWrite, identity.Admin} {
		if role.String() == name {
			return role, true
		}
	}
	return identity.NoRole, false
}

// CertificateFiles returns the files of TLS. There are none without HasTLS.
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

// identify gives a request with a client certificate its principal: the common name of the
// certificate, or its whole subject if it has no common name. The handshake has verified the
// certificate. A subject that cannot be stored is ignored, and so is a certificate
// that has expired since. A token replaces this principal.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	role, _ := roleNamed(s.cfg.TLSClientRole)
	return func(c echo.Context) error {
		if r := c.Request(); r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			identifyByCertificate(c, role)
		}
		return next(c)
	}
}

// identifyByCertificate is not part of identify because its large frame would stay on the stack of each
// request that waits.
func identifyByCertificate(c echo.Context, role identity.Role) {
	r := c.Request()
	leaf := r.TLS.VerifiedChains[0][0]
	who := &identity.Principal{Subject: cmp.Or(leaf.Subject.CommonName, leaf.Subject.String()), Role: role, EndsAt: leaf.NotAfter}
	who.Check = func() error {
		if time.Now().After(who.EndsAt) {
			return &queue.Error{Code: queue.CodeUnauthenticated, Message: "Client certificate has expired"}
		}
		return nil
	}
	if identity.Printable(who.Subject) && who.Check() == nil {
		c.SetRequest(r.WithContext(identity.With(r.Context(), who)))
	}
}

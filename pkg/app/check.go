package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/certificate"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

// Check returns a *config.Error that lists what makes Run refuse valid settings before it talks to the database: URLs
// that cannot be read, and files and addresses that this machine lacks. A port may be in use.
func Check(ctx context.Context, cfg config.Config) error {
	problems := []error{
		checkURL("database.url", cfg.Database.URL), checkURL("database.listen_url", cfg.Database.ListenURL),
		checkHost(ctx, "http.addr", cfg.HTTP.Addr),
	}
	if cfg.HTTP.InternalAddr != "" {
		problems = append(problems, checkHost(ctx, "http.internal_addr", cfg.HTTP.InternalAddr))
	}
	if cfg.HTTP.HasTLS() {
		_, err := certificate.Open(cfg.HTTP.CertificateFiles(), time.Now, zap.NewNop())
		problems = append(problems, err)
	}
	return config.Refuse(errors.Join(problems...))
}

// checkURL accepts no URL.
func checkURL(key string, url setting.Secret) error {
	if url == "" {
		return nil
	}
	if _, err := postgres.ParseURL(url.Reveal()); err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	return nil
}

// checkHost listens for a moment on any port of the host of an address.
func checkHost(ctx context.Context, key, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s is %q: %w", key, addr, err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return fmt.Errorf("%s is %q, and this machine cannot listen there: %w", key, addr, err)
	}
	return ln.Close()
}

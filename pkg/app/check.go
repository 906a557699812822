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

// Check finds valid settings with which Run fails before it calls the database: URLs that cannot be parsed, and files and
// addresses that this machine does not have. Check returns a *config.Error that lists the problems. Check does not detect a port
// that is in use.
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

// checkURL returns an error if a URL cannot be parsed. An empty URL is valid.
func checkURL(key string, url setting.Secret) error {
	if url == "" {
		return nil
	}
	if _, err := postgres.ParseURL(url.Reveal()); err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	return nil
}

// checkHost returns an error if this machine cannot listen on the host of an address. It listens on a free port for a moment.
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

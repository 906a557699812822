package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/access/certificate"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/httpapi"
)

// healthTimeout bounds the request of `belfry health`.
const healthTimeout = 5 * time.Second

// maxReason bounds what is read of the answer.
const maxReason = 4096

// newHealthCmd returns the command for the health check of a container, because the image
// has neither a shell nor curl.
func newHealthCmd() *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a server whether it is ready; exit 0 when it is",
		Long: `Ask the server of this configuration whether it is ready: at http.internal_addr, or
at http.addr if there is none. Its certificate is not verified, because the request has no
secret. A server or a context that a flag or a variable names is asked instead, and its
certificate is verified. The current context is not used, because the health check of a
container has none. With several servers, each must be ready. With --ca-file, each
certificate is verified.`,
		Example: `  belfry health
  belfry health --server https://belfry.example.com:6632 --ca-file ca.crt
  belfry health --context production`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/readyz"
			if live {
				path = "/livez"
			}
			if !session.NamesServer(cmd) {
				cfg, err := loadConfig(cmd)
				if err != nil {
					return err
				}
				caFile, _ := cmd.Flags().GetString("ca-file") // AddServerFlags added it
				return askHealth(cmd.Context(), healthURL(cfg.HTTP)+path, session.Target{CAFile: caFile}, true)
			}
			target, err := session.TargetOf(cmd)
			if err != nil {
				return err
			}
			var errs []error
			for url := range strings.SplitSeq(target.Server, ",") {
				errs = append(errs, askHealth(cmd.Context(), strings.TrimSuffix(url, "/")+path, target, false))
			}
			return errors.Join(errs...)
		},
	}
	session.AddServerFlags(cmd)
	cmd.Flags().BoolVar(&live, "live", false, "only ask whether the process answers (/livez), also while it starts, stops or has no database")
	return cmd
}

// healthURL returns the address that needs the least: the internal one has neither TLS nor client
// certificates.
func healthURL(cfg httpapi.Config) string {
	if cfg.InternalAddr != "" {
		return "http://" + reachable(cfg.InternalAddr)
	}
	return apiURL(cfg)
}

// apiURL returns the URL of http.addr for a client on this machine.
func apiURL(cfg httpapi.Config) string {
	if cfg.HasTLS() {
		return "https://" + reachable(cfg.Addr)
	}
	return "http://" + reachable(cfg.Addr)
}

// askHealth returns an error unless a probe answers 200. The error has the reason in the answer. own: it is the server of
// this configuration, of whose certificate neither a name nor the CA is known.
func askHealth(ctx context.Context, url string, target session.Target, own bool) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	config, err := certificate.Client(target.CAFile)
	if err != nil {
		return err
	}
	config.InsecureSkipVerify = own && target.CAFile == "" //nolint:gosec // the request has no secret, and only the status is read
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	if target.Token != "" {
		req.Header.Set("Authorization", "Bearer "+target.Token)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		var unverified *tls.CertificateVerificationError
		if errors.As(err, &unverified) {
			return fmt.Errorf("asking %s: %w; use --ca-file, and --server with a name of the certificate, or set http.internal_addr", url, err)
		}
		return fmt.Errorf("asking %s: %w; is the server running?", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var answer struct{ Reason, Error string }
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	_ = json.Unmarshal(text, &answer) // something else may answer at this address
	if reason := cmp.Or(answer.Reason, answer.Error); reason != "" {
		return fmt.Errorf("%s answered %s: %s", url, resp.Status, reason)
	}
	return fmt.Errorf("%s answered %s", url, resp.Status)
}

// reachable returns host:port for a client on this machine. If the server listens on every
// address, that is localhost.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

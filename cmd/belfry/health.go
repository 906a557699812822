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

// healthTimeout limits the request of `belfry health`.
const healthTimeout = 5 * time.Second

// maxReason is the maximum number of bytes read from the answer.
const maxReason = 4096

// newHealthCmd returns the command for the health check of a container. The image contains neither a shell nor curl.
func newHealthCmd() *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a server whether it is ready; exit 0 if it is",
		Long: `Ask the server of this configuration whether it is ready. The address is
http.internal_addr, or http.addr if there is none. The certificate of the server is not
verified, because the request has no secret.

If a flag or a variable names a server or a context, that server is asked and its
certificate is verified. The current context is not used. If the context has several
servers, each must be ready. With --ca-file, every certificate is verified.`,
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
	cmd.Flags().BoolVar(&live, "live", false, "only ask whether the process answers (/livez); it also answers while it starts, stops or has no database")
	return cmd
}

// healthURL returns the URL of the health check. It prefers the internal address, which needs neither TLS nor a
// client certificate.
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

// askHealth returns an error unless the server answers 200. The error contains the reason from the answer. With own,
// the server is the server of this configuration, and askHealth verifies its certificate only if target has a CA
// file.
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
			return fmt.Errorf("asking %s: %w; give --ca-file and a --server with a host name of the certificate, or set http.internal_addr", url, err)
		}
		return fmt.Errorf("asking %s: %w; is the server running?", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var answer struct{ Reason, Error string }
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	_ = json.Unmarshal(text, &answer) // the program at this address may not be Belfry
	if reason := cmp.Or(answer.Reason, answer.Error); reason != "" {
		return fmt.Errorf("%s answered %s: %s", url, resp.Status, reason)
	}
	return fmt.Errorf("%s answered %s", url, resp.Status)
}

// reachable returns host:port for a client on this machine. If the server listens on all addresses, the host is
// localhost.
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

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
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
		Short: "Ask the server on http.addr whether it is ready; exit 0 when it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			path := "/readyz"
			if live {
				path = "/livez"
			}
			return askHealth(cmd.Context(), "http://"+reachable(cfg.HTTP.Addr)+path)
		},
	}
	cmd.Flags().BoolVar(&live, "live", false, "only ask whether the process answers (/livez), also while it starts, stops or has no database")
	return cmd
}

// askHealth returns an error unless a probe answers 200. The error has the reason in the answer.
func askHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
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

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
)

// startServer starts a server in this process. It uses the default settings, except for the heartbeat. It returns the
// address of the server and a function that stops it. It blocks until the server is ready or has failed.
func startServer(ctx context.Context, dsn string) (base string, stop func() error, err error) {
	spool, err := os.MkdirTemp("", "belfry-ways-spool-")
	if err != nil {
		return "", nil, fmt.Errorf("making a folder: %w", err)
	}
	cfg := config.Default()
	cfg.Database.URL = setting.Secret(dsn)
	cfg.HTTP.Addr, cfg.HTTP.DrainDelay = "127.0.0.1:0", 0
	cfg.Spool.Dir = spool
	// A heartbeat runs the same code as a wake, so no heartbeat may happen during the intervals.
	cfg.Listen.CanaryInterval, cfg.Listen.PeerTimeout = time.Hour, 2*time.Hour
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() { ended <- app.Run(ctx, cfg, zap.NewNop(), func(addr net.Addr) { ready <- addr }) }()
	select {
	case addr := <-ready:
		return "http://" + addr.String(), func() error {
			cancel()
			return errors.Join(<-ended, os.RemoveAll(spool))
		}, nil
	case err := <-ended:
		cancel()
		return "", nil, errors.Join(fmt.Errorf("the server did not start: %w", err), os.RemoveAll(spool))
	}
}

// serveUntilEOF starts a server, writes the address of the server as a line, and stops the server at the end of
// input.
func serveUntilEOF(ctx context.Context, dsn string, input io.Reader, output io.Writer) error {
	base, stop, err := startServer(ctx, dsn)
	if err != nil {
		return err
	}
	printf(output, "%s\n", base)
	_, err = io.Copy(io.Discard, input)
	return errors.Join(err, stop())
}

// startOther starts a server in another process. The counters of this process do not count its work.
func startOther(ctx context.Context, dsn string) (base string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0], serveRole, dsn)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("starting the other server: %w", err)
	}
	stop = func() error { return errors.Join(input.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the other server did not start: %w", err), stop())
	}
	return strings.TrimSpace(line), stop, nil
}

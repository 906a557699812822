package rig

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

const (
	serverChild = "server"
	// startPatience limits the time of the start of a server, including its migration.
	startPatience = time.Minute
	// lookInterval is the time between two checks of a server.
	lookInterval = 20 * time.Millisecond
)

// serve runs a server with the settings of the environment, and writes the address of the server.
func serve(in *bufio.Reader, out io.Writer) error {
	cfg, err := config.Load(config.Options{Environ: os.Environ()})
	if err != nil {
		return err
	}
	logging := zap.NewProductionConfig()
	logging.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
	log, err := logging.Build()
	if err != nil {
		return err
	}
	return app.Run(UntilEnd(in), cfg, log, func(addr net.Addr) {
		_, _ = fmt.Fprintln(out, addr) // if the write fails, the parent misses the address and stops this process
	})
}

// Server is a child that answers HTTP requests, with a client for it.
type Server struct {
	*Process
	*load.Client
}

// StartListening starts a child that writes its address. It waits at most a minute for the address.
func StartListening(ctx context.Context, name string, env ...string) (*Server, error) {
	p, err := Start(name, env...)
	if err != nil {
		return nil, err
	}
	s := &Server{Process: p}
	starting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	address, err := p.ReadLine(starting)
	if err == nil {
		s.Client, err = load.NewClient("http://"+address, nil)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return s, nil
}

// StartServer starts a server on a database. It blocks until the server answers and receives
// notifications.
func StartServer(ctx context.Context, dsn string, env ...string) (*Server, error) {
	s, err := StartListening(ctx, serverChild, append(env, "BELFRY_DATABASE_URL="+dsn, "BELFRY_HTTP_ADDR=127.0.0.1:0", "BELFRY_HTTP_DRAIN_DELAY=0s")...)
	if err != nil {
		return nil, err
	}
	err = s.waitHealth(ctx, func(h Health) bool { return h.Listener.State == "proven" })
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop closes the idle connections and stops the child.
func (s *Server) Stop() error {
	s.Close()
	return s.Process.Stop()
}

// Call sends a request to a path and decodes the JSON answer. The path may have a query. If body is nil, the request has no
// body. If into is nil, Call ignores the answer. It blocks until the answer arrives or ctx ends.
func (s *Server) Call(ctx context.Context, method, path string, body, into any) (load.Response, error) {
	path, query, _ := strings.Cut(path, "?")
	target := s.URL(path)
	target.RawQuery = query
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return load.Response{}, fmt.Errorf("encoding the body of %s: %w", path, err)
		}
	}
	var text bytes.Buffer
	resp, err := s.Do(ctx, method, target, encoded, &text)
	if err != nil || into == nil || text.Len() == 0 {
		return resp, err
	}
	if err := json.Unmarshal(text.Bytes(), into); err != nil {
		return resp, fmt.Errorf("decoding the answer of %s: %w", path, err)
	}
	return resp, nil
}

// Health is the answer of /health.
type Health struct {
	Waiting  int `json:"waiting"`
	Listener struct {
		State string `json:"state"`
	} `json:"listener"`
}

// Health returns the state of the server.
func (s *Server) Health(ctx context.Context) (h Health, err error) {
	_, err = s.Call(ctx, http.MethodGet, "/health", nil, &h)
	return h, err
}

// WaitWaiting blocks until n requests wait at the server.
func (s *Server) WaitWaiting(ctx context.Context, n int) error {
	return s.waitHealth(ctx, func(h Health) bool { return h.Waiting == n })
}

func (s *Server) waitHealth(ctx context.Context, ok func(h Health) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		h, err := s.Health(ctx)
		if err != nil {
			return err
		}
		if ok(h) {
			return nil
		}
		if err := load.Pause(ctx, lookInterval); err != nil {
			return fmt.Errorf("waiting for the server: %w; %d requests wait, the listener is %s", err, h.Waiting, h.Listener.State)
		}
	}
}

// Failures returns an error if any request failed.
func Failures(m *load.Meter) error {
	counts, examples := m.Errors()
	var errs []error
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		errs = append(errs, fmt.Errorf("%d requests failed (%s), for example: %s", counts[kind], kind, examples[kind]))
	}
	return errors.Join(errs...)
}

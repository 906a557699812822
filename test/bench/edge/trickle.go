package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	trickleMemory = 300 << 20
	trickleRatio  = 1.5
	byteInterval  = time.Second
	// unreadMessages is the number of 1 MiB messages in an unread answer. They exceed the buffers of a connection.
	unreadMessages = 4
	smallBuffer    = 4 << 10
	arrival        = 3 * time.Second
	// registering is the number of groups that are registered at the same time.
	registering = 20
)

// slowClient is a kind of slow client. run returns when the server has closed the connection.
type slowClient struct {
	name string
	run  func(ctx context.Context, address string, n int) error
}

// measureTrickle times pushes while other connections send or read too slowly.
func measureTrickle(ctx context.Context, r *suite, out *rig.Report) (err error) {
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.registerUnread(ctx); err != nil {
		return err
	}
	payload := `"` + strings.Repeat("x", 1<<20) + `"`
	for range unreadMessages {
		if err := t.push(ctx, "large", "Default", payload); err != nil {
			return err
		}
	}
	if _, err := t.timePushes(ctx, time.Second, "others", one); err != nil { // fills caches
		return err
	}
	quiet, err := t.timePushes(ctx, t.quiet, "others", one)
	if err != nil {
		return err
	}
	for _, kind := range []slowClient{{"one byte per second", trickleOne}, {"reading nothing", popUnread}} {
		if err := t.beside(ctx, kind, quiet, out); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

// beside times pushes while many slow connections are open. Then it stops the server while they are still open.
func (t *trial) beside(ctx context.Context, kind slowClient, quiet timing, out *rig.Report) (err error) {
	if t.Server == nil {
		if t.Server, err = rig.StartServer(ctx, t.dsn); err != nil {
			return err
		}
	}
	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	address := t.URL("").Host
	for n := range t.connections {
		all.Go(func() {
			// Connections arrive one after another. When the server closes a connection, the client opens another one.
			_ = load.Pause(working, time.Duration(n)*arrival/time.Duration(t.connections))
			for working.Err() == nil {
				_ = kind.run(working, address, n)
				_ = load.Pause(working, 100*time.Millisecond)
			}
		})
	}
	defer all.Wait()
	defer stop()
	end := t.watchMemory(ctx)
	err = load.Pause(ctx, arrival)
	var loaded timing
	if err == nil {
		loaded, err = t.timePushes(ctx, t.quiet, "others", one)
	}
	most := end()
	if err != nil {
		return err
	}
	out.Memory(fmt.Sprintf("%d connections %s: memory of the server", t.connections, kind.name), most, trickleMemory)
	pushesFailed(out, kind.name, loaded)
	out.Ratio(kind.name+": p99 of other pushes", loaded.Quantile(0.99), quiet.Quantile(0.99), trickleRatio)
	began := time.Now()
	server := t.Server
	t.Server = nil
	stopped := server.Stop()
	limit := config.Default().HTTP.ShutdownTimeout
	out.Within(kind.name+": stop (limit: http.shutdown_timeout plus 1 s)", time.Since(began), limit+time.Second)
	if stopped != nil {
		out.Note(kind.name+": error of the stop", stopped.Error())
	}
	return nil
}

// trickleOne sends the body of a push at one byte per second until the server closes the connection.
func trickleOne(ctx context.Context, address string, _ int) error {
	conn, err := open(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("POST /api/v1/push HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n")); err != nil {
		return err
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			_ = resp.Body.Close()
		}
	}()
	for ctx.Err() == nil && err == nil {
		select {
		case <-answered:
			return nil
		case <-time.After(byteInterval):
			_, err = conn.Write([]byte(" "))
		}
	}
	_ = conn.Close()
	<-answered
	return err
}

// registerUnread registers the groups of popUnread before the measure starts. So the measure does not include the
// registration.
func (t *trial) registerUnread(ctx context.Context) error {
	if err := t.push(ctx, "large", "Default", "1"); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(registering)
	for n := range t.connections {
		group.Go(func() error {
			target := t.URL("/api/v1/pop/queue/large")
			target.RawQuery = fmt.Sprintf("autoAck=true&consumerGroup=g%d", n)
			_, err := t.Do(ctx, http.MethodGet, target, nil, new(bytes.Buffer))
			return err
		})
	}
	return group.Wait()
}

// popUnread pops a large answer, each caller with its own group, and does not read the answer. It returns when the server
// has closed the connection.
func popUnread(ctx context.Context, address string, n int) error {
	conn, err := open(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(smallBuffer)
	}
	_, err = fmt.Fprintf(conn, "GET /api/v1/pop/queue/large?batch=%d&consumerGroup=g%d HTTP/1.1\r\nHost: edge\r\n\r\n", unreadMessages, n)
	for err == nil && ctx.Err() == nil {
		if err = load.Pause(ctx, byteInterval); err == nil {
			_, err = conn.Write([]byte("\n")) // fails when the server has closed the connection
		}
	}
	return err
}

func open(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

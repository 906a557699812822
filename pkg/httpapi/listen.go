package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// internalConnections limits the connections of http.internal_addr. They do not count for
// http.max_connections, so the server answers probes even when http.max_connections is reached.
const internalConnections = 100

// Listeners are the open addresses of a server.
type Listeners struct {
	net.Listener              // http.addr
	Internal     net.Listener // http.internal_addr, or nil
}

// httpServer returns a server for the routes in api. The caller may replace the routes later.
func (s *Server) httpServer(api *atomic.Pointer[echo.Echo]) *http.Server {
	// HTTP/2 would allow up to 250 requests on one connection. Then http.max_connections would not limit
	// the waiting requests, and Shutdown could not end slow requests before its timeout.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.Load().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, Protocols: protocols,
		MaxHeaderBytes: int(s.cfg.MaxHeaderBytes),
		ErrorLog:       zap.NewStdLog(s.start.Log.Named("http")),
	}
}

// Listen reads the certificate and opens the listen addresses. It fails if a file cannot be used or a
// port is in use. Call it once, before Serve.
func (s *Server) Listen(ctx context.Context) (Listeners, error) {
	if err := s.openTLS(); err != nil {
		return Listeners{}, err
	}
	var config net.ListenConfig
	api, err := config.Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return Listeners{}, fmt.Errorf("listening on %s (http.addr): %w; choose another with --http-addr", s.cfg.Addr, err)
	}
	if s.cfg.InternalAddr == "" {
		return Listeners{Listener: api}, nil
	}
	internal, err := config.Listen(ctx, "tcp", s.cfg.InternalAddr)
	if err != nil {
		_ = api.Close() // nothing was served
		return Listeners{}, fmt.Errorf("listening on %s (http.internal_addr): %w", s.cfg.InternalAddr, err)
	}
	return Listeners{Listener: api, Internal: internal}, nil
}

// Serve answers requests. It blocks until Shutdown and then returns nil. If one address fails, Serve
// closes the other address too.
func (s *Server) Serve(ln Listeners) error {
	var serving errgroup.Group
	serve := func(ln net.Listener, serve func() error) {
		serving.Go(func() error {
			err := serve()
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return errors.Join(fmt.Errorf("serving on %s: %w", ln.Addr(), err), s.http.Close(), s.internal.Close())
		})
	}
	serve(ln, func() error {
		counted := limitedListener{ln.Listener, s.connections, s.cfg.HasTLS()}
		if s.cfg.HasTLS() {
			return s.http.ServeTLS(counted, "", "")
		}
		return s.http.Serve(counted)
	})
	if ln.Internal != nil {
		internal := newConnections(internalConnections, s.start.Metrics.connectionRefused)
		serve(ln.Internal, func() error { return s.internal.Serve(limitedListener{ln.Internal, internal, false}) })
	}
	return serving.Wait()
}

// Shutdown accepts no new requests and waits for the requests in flight. After half of
// http.shutdown_timeout, a client that still sends its body gets 408. After four fifths, the connection of
// a client that still reads an answer is closed. After http.shutdown_timeout, Shutdown closes the
// connections of the remaining requests and returns an error. It closes http.internal_addr last.
func (s *Server) Shutdown(ctx context.Context) error {
	now, timeout := time.Now(), s.cfg.ShutdownTimeout
	s.connections.endBy(ends{read: now.Add(timeout / 2), write: now.Add(timeout * 4 / 5)})
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	defer func() { _ = s.internal.Close() }()
	if err := s.http.Shutdown(ctx); err != nil {
		closing := s.http.Close()
		return fmt.Errorf("requests were still in flight after %s (http.shutdown_timeout), and their connections were closed: %w",
			s.cfg.ShutdownTimeout, errors.Join(err, closing))
	}
	return nil
}

const (
	// refusalTimeout limits how long a refused connection stays open. It stays open until its client has
	// read the answer, because closing a connection with unread bytes would discard the answer.
	refusalTimeout = 500 * time.Millisecond
	// maxRefusals is the maximum number of refused connections that are open at a time. Further
	// connections are closed without an answer.
	maxRefusals = 64
)

// refusal is the answer to a connection above http.max_connections.
var refusal = func() []byte {
	const body = `{"error":"the number of connections has reached http.max_connections: try again later"}`
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Retry-After: 1\r\nConnection: close\r\n\r\n%s", len(body), body)
}()

// connections has the open connections of a server and limits their number.
type connections struct {
	// open and refusing hold one element for each connection.
	open, refusing chan struct{}
	// refused is called for each connection above the limit.
	refused func()

	mu   sync.Mutex
	each map[*countedConn]struct{} // under mu
	end  ends                      // under mu
}

// ends has the latest deadlines of a connection. Zero means no limit.
type ends struct{ read, write time.Time }

func newConnections(limit int, refused func()) *connections {
	return &connections{
		open: make(chan struct{}, limit), refusing: make(chan struct{}, maxRefusals), refused: refused,
		each: map[*countedConn]struct{}{},
	}
}

// add adds a connection. The close of the connection removes it.
func (cs *connections) add(tcp *net.TCPConn) *countedConn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	conn := &countedConn{TCPConn: tcp, end: cs.end}
	conn.leave = sync.OnceFunc(func() {
		cs.mu.Lock()
		delete(cs.each, conn)
		cs.mu.Unlock()
		<-cs.open
	})
	cs.each[conn] = struct{}{}
	return conn
}

// endBy limits the deadlines of all connections, including deadlines that net/http sets later. So slow
// clients cannot delay the stop. A connection without a deadline is not limited: its request waits inside
// the server.
func (cs *connections) endBy(end ends) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.end = end
	for conn := range cs.each {
		conn.endBy(end)
	}
}

// limitedListener answers connections above the limit with 503 and closes them.
type limitedListener struct {
	net.Listener
	*connections
	// tls means that the client expects a TLS handshake. Then a connection above the limit is closed without
	// an answer.
	tls bool
}

// Accept returns the next connection within the limit.
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			return conn, nil
		}
		select {
		case l.open <- struct{}{}:
			return l.add(tcp), nil
		default:
			l.refuse(tcp)
		}
	}
}

func (l limitedListener) refuse(conn *net.TCPConn) {
	l.refused()
	if l.tls {
		_ = conn.Close()
		return
	}
	select {
	case l.refusing <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	go func() {
		defer func() { <-l.refusing }()
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(refusalTimeout))
		if _, err := conn.Write(refusal); err != nil {
			return
		}
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	}()
}

// countedConn is an open connection. leave removes it from connections.
type countedConn struct {
	*net.TCPConn
	leave func()

	mu          sync.Mutex
	read, write time.Time // the deadlines that net/http has set, under mu
	end         ends      // under mu
}

// Close closes the connection and calls leave. It may be called several times.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

// SetReadDeadline sets the earlier of t and the limit of endBy.
func (c *countedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.TCPConn.SetReadDeadline(earlier(t, c.end.read))
}

// SetWriteDeadline sets the earlier of t and the limit of endBy.
func (c *countedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.TCPConn.SetWriteDeadline(earlier(t, c.end.write))
}

func (c *countedConn) endBy(end ends) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = end
	_ = c.TCPConn.SetReadDeadline(earlier(c.read, end.read)) // fails only after a close
	_ = c.TCPConn.SetWriteDeadline(earlier(c.write, end.write))
}

// earlier returns the earlier of deadline and end. If one of them is zero, it returns deadline.
func earlier(deadline, end time.Time) time.Time {
	if !deadline.IsZero() && !end.IsZero() && deadline.After(end) {
		return end
	}
	return deadline
}

// limitTime limits how long a client sends the body (http.body_timeout) and how long it reads the
// answer (http.write_timeout). It does not limit the wait of a long poll between the two: net/http
// removes the read deadline when the whole body has arrived, and timedWriter sets the write deadline
// only when the answer begins.
//
// The limit also applies to a body that no handler reads, because net/http reads the rest of a body
// before it answers.
func (s *Server) limitTime(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		response := c.Response()
		control := http.NewResponseController(response.Writer)
		if c.Request().ContentLength != 0 {
			_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout)) // fails only in tests without a connection
		}
		response.Writer = &timedWriter{ResponseWriter: response.Writer, control: control, timeout: s.cfg.WriteTimeout}
		return next(c)
	}
}

// timedWriter sets the write deadline when an answer begins.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool
}

// Unwrap lets http.ResponseController find the connection.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sets the write deadline and writes the header.
func (w *timedWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write sets the write deadline, unless WriteHeader has set it, and writes p.
func (w *timedWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *timedWriter) begin() {
	if !w.begun {
		w.begun = true
		_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	}
}

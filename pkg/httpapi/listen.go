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

// internalConnections bounds the connections of http.internal_addr. They do not count in
// http.max_connections. So the server answers probes while that limit is reached.
const internalConnections = 100

// Listeners are the open addresses of a server.
type Listeners struct {
	net.Listener              // http.addr
	Internal     net.Listener // http.internal_addr, or nil
}

// httpServer returns a server of the routes in api, which may be replaced.
func (s *Server) httpServer(api *atomic.Pointer[echo.Echo]) *http.Server {
	// HTTP/2 would carry up to 250 requests on one connection. Then http.max_connections would not bound
	// the requests that wait, and Shutdown could not end slow requests before its timeout.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.Load().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, Protocols: protocols,
		MaxHeaderBytes: int(s.cfg.MaxHeaderBytes),
		ErrorLog:       zap.NewStdLog(s.start.Log.Named("http")),
	}
}

// Listen reads the certificate and opens the listen addresses. A file that cannot be used and a port
// in use are errors here, before Serve. It is called once.
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

// Serve answers requests. It blocks until Shutdown and then returns nil. If one address fails, it
// closes the other one.
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

// Shutdown accepts no new requests and waits for the requests in flight. A client
// that sends slowly has half of http.shutdown_timeout, and then gets 408. A client that reads slowly has
// four fifths. After http.shutdown_timeout, Shutdown closes the connections of the other requests and
// returns an error. It closes http.internal_addr last.
func (s *Server) Shutdown(ctx context.Context) error {
	now, timeout := time.Now(), s.cfg.ShutdownTimeout
	s.connections.endBy(ends{read: now.Add(timeout / 2), write: now.Add(timeout * 4 / 5)})
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	defer func() { _ = s.internal.Close() }()
	if err := s.http.Shutdown(ctx); err != nil {
		closing := s.http.Close()
		return fmt.Errorf("requests were still in flight after %s (http.shutdown_timeout) and were cut off: %w",
			s.cfg.ShutdownTimeout, errors.Join(err, closing))
	}
	return nil
}

const (
	// refusalTimeout bounds how long a refused connection stays open, so that its client
	// reads the answer. A close with unread bytes would discard the answer.
	refusalTimeout = 500 * time.Millisecond
	// maxRefusals is how many refused connections are open at a time. Further ones are
	// closed without an answer.
	maxRefusals = 64
)

// refusal is the answer to a connection above http.max_connections.
var refusal = func() []byte {
	const body = `{"error":"the server has as many connections as http.max_connections allows: try again later"}`
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Retry-After: 1\r\nConnection: close\r\n\r\n%s", len(body), body)
}()

// connections are the open connections of a server. Their number is bounded.
type connections struct {
	// open and refusing hold one element for each connection.
	open, refusing chan struct{}
	// refused is called for each connection above the limit.
	refused func()

	mu   sync.Mutex
	each map[*countedConn]struct{} // under mu
	end  ends                      // under mu
}

// ends are the latest deadlines of a connection. Zero: not bounded.
type ends struct{ read, write time.Time }

func newConnections(limit int, refused func()) *connections {
	return &connections{
		open: make(chan struct{}, limit), refusing: make(chan struct{}, maxRefusals), refused: refused,
		each: map[*countedConn]struct{}{},
	}
}

// add counts a connection until it is closed.
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

// endBy moves each later deadline of a connection to its end, now and from now on. It bounds how long a
// client can send or read slowly. A connection without a deadline waits inside the server.
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
	// tls closes those connections without an answer, because a client expects a handshake.
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

// countedConn is counted until it is closed.
type countedConn struct {
	*net.TCPConn
	leave func()

	mu          sync.Mutex
	read, write time.Time // the deadlines that net/http has set, under mu
	end         ends      // under mu
}

// Close may be called several times.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

// SetReadDeadline sets the deadline, or the end if that is earlier.
func (c *countedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.TCPConn.SetReadDeadline(earlier(t, c.end.read))
}

// SetWriteDeadline sets the deadline, or the end if that is earlier.
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

// earlier returns deadline, or end if that is earlier. A zero time is no deadline and no end.
func earlier(deadline, end time.Time) time.Time {
	if !deadline.IsZero() && !end.IsZero() && deadline.After(end) {
		return end
	}
	return deadline
}

// limitTime bounds the time in which a client sends a body, by http.body_timeout, and the
// time in which it reads the answer, by http.write_timeout. A long poll waits between the
// two and has no limit here: net/http removes the read deadline when the whole body has
// arrived, and the write deadline when the answer is written.
//
// The time of a body that no handler reads is bounded too, because net/http reads the rest
// of a body before it answers.
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

// WriteHeader begins the answer.
func (w *timedWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer, unless WriteHeader did.
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

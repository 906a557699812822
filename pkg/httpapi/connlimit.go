package httpapi

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

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

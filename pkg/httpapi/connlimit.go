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

// limitedListener has a bounded number of open connections. It answers further ones with 503
// and closes them.
type limitedListener struct {
	net.Listener
	// open and refusing hold one element for each connection.
	open, refusing chan struct{}
	// refused is called for each connection above the limit.
	refused func()
}

func limitConnections(ln net.Listener, limit int, refused func()) *limitedListener {
	return &limitedListener{
		Listener: ln, open: make(chan struct{}, limit), refusing: make(chan struct{}, maxRefusals), refused: refused,
	}
}

// Accept returns the next connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
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
			return &countedConn{TCPConn: tcp, leave: sync.OnceFunc(func() { <-l.open })}, nil
		default:
			l.refuse(tcp)
		}
	}
}

func (l *limitedListener) refuse(conn *net.TCPConn) {
	l.refused()
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
}

// Close may be called several times.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

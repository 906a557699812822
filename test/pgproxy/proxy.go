// Package pgproxy is an unreliable network between a test and Postgres. The test controls it. It can freeze, cut or delay
// connections, and discard notifications. It can discard the answer to a COMMIT, and leave a LISTEN or any other statement
// unanswered. It can also forward to servers that do not speak the protocol of Postgres. Any test may import it.
package pgproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Proxy forwards connections of a test to Postgres. It can freeze connections without closing them. It can discard
// notifications, like a pooler in transaction mode: such a pooler runs the LISTEN, but forwards no later notification to
// the client.
type Proxy struct {
	target   atomic.Pointer[string]
	socket   net.Listener
	pumps    sync.WaitGroup
	postgres bool // the proxy parses the messages of the server
	// Swallow discards notifications. Stall holds back the answer to a LISTEN, and every later message of its connection.
	Swallow, Stall atomic.Bool
	// CutCommit discards the answer to the next COMMIT and closes its connection.
	CutCommit atomic.Bool
	// CutRowOf discards the next row with this many columns and closes its connection. 0 means no row.
	CutRowOf atomic.Int32
	// CutRow discards the next row of an answer and closes its connection.
	CutRow atomic.Bool
	// Lag is a delay in nanoseconds for each read of traffic. The proxy delays one read after the other, so Lag also limits
	// the rate.
	Lag atomic.Int64
	// Links counts the accepted connections.
	Links atomic.Int64
	// silences decides for the text of each statement whether the connection falls silent; see SilenceOn.
	silences atomic.Pointer[func(statement string) bool]

	mu       sync.Mutex
	silenced []*Silenced
	gate     chan struct{} // the gate for new connections; traffic flows when the channel is closed
	open     map[*gated]struct{}
	closed   bool
}

// AckColumns is the number of columns in a row of belfry.apply_acks. The statement that calls it commits by itself, so
// CutRowOf = AckColumns loses the answer to a committed ack.
const AckColumns = 12

// New starts a proxy to the server of dsn. The proxy runs until the test ends. New returns the DSN through the proxy. That
// DSN has no TLS, because the proxy parses messages.
func New(t *testing.T, dsn string) (p *Proxy, through string) {
	t.Helper()
	target, err := url.Parse(dsn)
	require.NoError(t, err)
	p, err = Open(t.Context(), target.Host)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	target.Host = p.Addr()
	query := target.Query()
	query.Set("sslmode", "disable")
	target.RawQuery = query.Encode()
	return p, target.String()
}

// Open starts a proxy to the Postgres at target, a host and a port. The caller must call Close.
func Open(ctx context.Context, target string) (*Proxy, error) { return open(ctx, target, true) }

// OpenPlain opens a proxy for any protocol. Swallow, Stall, CutCommit, CutRow and CutRowOf have no effect.
func OpenPlain(ctx context.Context, target string) (*Proxy, error) { return open(ctx, target, false) }

func open(ctx context.Context, target string, postgres bool) (*Proxy, error) {
	var lc net.ListenConfig
	socket, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for a proxy to %s: %w", target, err)
	}
	p := &Proxy{socket: socket, postgres: postgres, gate: make(chan struct{}), open: make(map[*gated]struct{})}
	p.Retarget(target)
	close(p.gate)
	p.pumps.Go(p.accept)
	return p, nil
}

// Addr returns the address that the proxy listens on, a host and a port.
func (p *Proxy) Addr() string { return p.socket.Addr().String() }

// Retarget sends new connections to another server. Existing connections stay.
func (p *Proxy) Retarget(target string) { p.target.Store(&target) }

// Cut closes the existing connections. New connections work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
	}
}

// Freeze stops the traffic of existing and new connections until thaw is called.
func (p *Proxy) Freeze() (thaw func()) {
	return p.hold(true)
}

// FreezeOld stops the traffic of the existing connections forever. New connections work.
func (p *Proxy) FreezeOld() { p.hold(false) }

func (p *Proxy) hold(keep bool) (thaw func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gate := make(chan struct{})
	p.gate = gate
	for conn := range p.open {
		conn.gate.Store(&gate)
	}
	if !keep {
		p.gate = make(chan struct{})
		close(p.gate)
	}
	return func() { close(gate) }
}

// Close closes the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	_ = p.socket.Close()
	for conn := range p.open {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.pumps.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.socket.Accept()
		if err != nil {
			return
		}
		var dialer net.Dialer
		server, err := dialer.Dial("tcp4", *p.target.Load())
		if err != nil {
			_ = client.Close()
			continue
		}
		p.Links.Add(1)
		here, there := p.track(client), p.track(server)
		answers := p.copyMessages
		if !p.postgres {
			answers = copyBytes
		}
		requests := copyBytes
		if silences := p.silences.Load(); silences != nil {
			requests = func(to *gated, from io.Reader) error { return p.copyRequests(to, here, from, *silences) }
		}
		p.pumps.Go(func() { p.pump(there, here, requests) })
		p.pumps.Go(func() { p.pump(here, there, answers) })
	}
}

// gated is a connection of the proxy. A write waits until the channel in gate is closed, so a closed channel means that
// traffic flows.
type gated struct {
	net.Conn
	gate atomic.Pointer[chan struct{}]
	lag  *atomic.Int64
	done chan struct{}
	once sync.Once
}

func (p *Proxy) track(conn net.Conn) *gated {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &gated{Conn: conn, lag: &p.Lag, done: make(chan struct{})}
	gate := p.gate
	g.gate.Store(&gate)
	p.open[g] = struct{}{}
	if p.closed {
		_ = g.Close()
	}
	return g
}

func (g *gated) Close() error {
	g.once.Do(func() { close(g.done) })
	return g.Conn.Close()
}

// pass waits for the lag, and then until the channel in gate is closed.
func (g *gated) pass() error {
	if lag := time.Duration(g.lag.Load()); lag > 0 {
		timer := time.NewTimer(lag)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-g.done:
			return net.ErrClosed
		}
	}
	select {
	case <-*g.gate.Load():
		return nil
	case <-g.done:
		return net.ErrClosed
	}
}

func (g *gated) Write(b []byte) (int, error) {
	if err := g.pass(); err != nil {
		return 0, err
	}
	return g.Conn.Write(b)
}

func (p *Proxy) pump(to, from *gated, forward func(*gated, io.Reader) error) {
	err := forward(to, from)
	// While the network is frozen, the other side must not see the end of the connection either.
	if !errors.Is(err, net.ErrClosed) {
		_ = to.pass()
	}
	_ = to.Close()
	_ = from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, to)
	delete(p.open, from)
}

func copyBytes(to *gated, from io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// copyMessages forwards the messages of Postgres one by one. A message is a letter, a length that includes itself, and the
// rest. Without TLS every message has this form.
func (p *Proxy) copyMessages(to *gated, from io.Reader) error {
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		message := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
		copy(message, head)
		if _, err := io.ReadFull(from, message[5:]); err != nil {
			return err
		}
		if head[0] == 'A' && p.Swallow.Load() { // NotificationResponse
			continue
		}
		if string(message[5:]) == "COMMIT\x00" && p.CutCommit.CompareAndSwap(true, false) {
			return net.ErrClosed
		}
		if head[0] == 'D' { // DataRow
			columns := int32(binary.BigEndian.Uint16(message[5:]))
			if p.CutRow.CompareAndSwap(true, false) || p.CutRowOf.CompareAndSwap(columns, 0) {
				return net.ErrClosed
			}
		}
		if string(message[5:]) == "LISTEN\x00" && p.Stall.Load() { // CommandComplete
			<-to.done
			return net.ErrClosed
		}
		if _, err := to.Write(message); err != nil {
			return err
		}
	}
}

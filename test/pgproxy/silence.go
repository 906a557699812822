package pgproxy

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// Silenced is a connection that fell silent instead of executing a statement.
type Silenced struct {
	Statement string
	Since     time.Time
	// Ended is when the client closed the connection. Zero: it still waits.
	Ended time.Time
}

// SilenceOn makes a connection fall silent when it is to execute a statement for which match returns true. Postgres gets
// nothing more of the connection, and the client neither an answer nor an end. match must be safe for concurrent use. Call
// SilenceOn before the first connection.
func (p *Proxy) SilenceOn(match func(statement string) bool) { p.silences.Store(&match) }

// Silenced returns the connections that fell silent, in this order.
func (p *Proxy) Silenced() (list []Silenced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.silenced {
		list = append(list, *s)
	}
	return list
}

// copyRequests forwards the messages of a client one by one: the startup message, and then a letter, a length that
// includes itself, and the rest. here is the connection to the client.
func (p *Proxy) copyRequests(to, here *gated, from io.Reader, silences func(statement string) bool) error {
	prepared := map[string]string{} // texts by the name of the statement
	for letters := 0; ; letters = 1 {
		message := make([]byte, letters+4)
		if _, err := io.ReadFull(from, message); err != nil {
			return err
		}
		rest := make([]byte, binary.BigEndian.Uint32(message[letters:])-4)
		if _, err := io.ReadFull(from, rest); err != nil {
			return err
		}
		if text := statement(message[0], rest, prepared); letters > 0 && text != "" && silences(text) {
			return p.silence(here, from, text)
		}
		if _, err := to.Write(append(message, rest...)); err != nil {
			return err
		}
	}
}

// statement returns the text that a message executes, or "". It notes what a message prepares.
func statement(kind byte, rest []byte, prepared map[string]string) string {
	first, after, _ := bytes.Cut(rest, []byte{0})
	second, _, _ := bytes.Cut(after, []byte{0})
	switch kind {
	case 'Q': // Query
		return string(first)
	case 'P': // Parse
		prepared[string(first)] = string(second)
	case 'B': // Bind: a portal and a statement
		return prepared[string(second)]
	}
	return ""
}

// silence reads what the client still sends until it closes the connection.
func (p *Proxy) silence(here *gated, from io.Reader, text string) error {
	never := make(chan struct{})
	here.gate.Store(&never)
	s := &Silenced{Statement: text, Since: time.Now()}
	p.mu.Lock()
	p.silenced = append(p.silenced, s)
	p.mu.Unlock()
	_, _ = io.Copy(io.Discard, from) // the error is the end
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Ended = time.Now()
	return net.ErrClosed
}

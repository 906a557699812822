package pgproxy

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// Silenced is a connection that fell silent when the client sent a statement. Postgres did not get the statement.
type Silenced struct {
	Statement string
	Since     time.Time
	// Ended is the time at which the client closed the connection. It is zero while the client waits.
	Ended time.Time
}

// SilenceOn makes a connection fall silent at the first statement for which match returns true. From then on the proxy
// forwards nothing to Postgres, and the client gets no answer and no end of the connection. match must be safe for
// concurrent use. Call SilenceOn before the first connection.
func (p *Proxy) SilenceOn(match func(statement string) bool) { p.silences.Store(&match) }

// Silenced returns the connections that fell silent, in the order of their silence.
func (p *Proxy) Silenced() (list []Silenced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.silenced {
		list = append(list, *s)
	}
	return list
}

// copyRequests forwards the messages of a client one by one. The first is the startup message. Every other message is a
// letter, a length that includes itself, and the rest. here is the connection to the client.
func (p *Proxy) copyRequests(to, here *gated, from io.Reader, silences func(statement string) bool) error {
	prepared := map[string]string{} // the text of each prepared statement, by name
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

// statement returns the text of the statement that a message executes, or "". It stores the text of a prepared statement in
// prepared.
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

// silence discards what the client sends until the client closes the connection.
func (p *Proxy) silence(here *gated, from io.Reader, text string) error {
	never := make(chan struct{})
	here.gate.Store(&never)
	s := &Silenced{Statement: text, Since: time.Now()}
	p.mu.Lock()
	p.silenced = append(p.silenced, s)
	p.mu.Unlock()
	_, _ = io.Copy(io.Discard, from) // an error means that the connection has ended
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Ended = time.Now()
	return net.ErrClosed
}

// Package outage prints a line when a command waits for a server.
//
// The package imports only pkg/client.
package outage

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/client"
)

// interval is the minimum time between two lines about outages, because many calls may wait at once.
const interval = 30 * time.Second

// Notice writes lines about outages. It is safe for concurrent use.
type Notice struct {
	out io.Writer

	mu   sync.Mutex
	next time.Time
}

// New returns a Notice that writes to out.
func New(out io.Writer) *Notice { return &Notice{out: out} }

// Report writes a line, unless a line was written less than interval ago. The client calls it when a call waits.
func (n *Notice) Report(o client.Outage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if now.Before(n.next) {
		return
	}
	n.next = now.Add(interval)
	cause := "no connection yet"
	if o.Cause != nil {
		cause = o.Cause.Error()
	}
	patience := "it waits until you stop it"
	if o.Left >= 0 {
		patience = fmt.Sprintf("it gives up in %s", o.Left.Round(time.Second))
	}
	_, _ = fmt.Fprintf(n.out, "belfry: the command waits for the server at %s (%s); %s\n", o.URL, cause, patience) // the command continues if the line cannot be written
}

// Silence stops all further lines. A command that draws on the screen calls it.
func (n *Notice) Silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.out = io.Discard
}

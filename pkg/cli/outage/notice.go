// Package outage writes a line for the user when a command waits for a server.
//
// It may import pkg/client only.
package outage

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/client"
)

// interval is the least time between two lines about outages. Many calls may wait at once.
const interval = 30 * time.Second

// Notice writes lines about outages. Its methods are called by any goroutine.
type Notice struct {
	out io.Writer

	mu   sync.Mutex
	next time.Time
}

// New returns a Notice that writes to out.
func New(out io.Writer) *Notice { return &Notice{out: out} }

// Report writes a line, unless there was one a short time ago. The calls of a client call it.
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
	patience := "it goes on until you end it"
	if o.Left >= 0 {
		patience = fmt.Sprintf("it gives up in %s", o.Left.Round(time.Second))
	}
	_, _ = fmt.Fprintf(n.out, "belfry: the command waits for the server at %s (%s); %s\n", o.URL, cause, patience) // the work goes on if nobody can see it
}

// Silence stops all further lines: the screen belongs to the command.
func (n *Notice) Silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.out = io.Discard
}

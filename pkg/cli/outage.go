package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/client"
)

// outageInterval is the least time between two lines about outages. Many calls may wait at once.
const outageInterval = 30 * time.Second

// outages tells the user that a command waits for a server.
type outages struct {
	out io.Writer

	mu   sync.Mutex
	next time.Time
}

// tell writes a line, unless there was one a short time ago. The calls of a client call it.
func (o *outages) tell(outage client.Outage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Before(o.next) {
		return
	}
	o.next = now.Add(outageInterval)
	cause := "no connection yet"
	if outage.Cause != nil {
		cause = outage.Cause.Error()
	}
	patience := "it goes on until you end it"
	if outage.Left >= 0 {
		patience = fmt.Sprintf("it gives up in %s", outage.Left.Round(time.Second))
	}
	_, _ = fmt.Fprintf(o.out, "belfry: the command waits for the server at %s (%s); %s\n", outage.URL, cause, patience) // the work goes on if nobody can see it
}

// silence stops all further lines: the screen belongs to the command.
func (o *outages) silence() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out = io.Discard
}

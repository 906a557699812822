package client

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// outageAfter is how long a call has no server before Config.OnOutage is called.
const outageAfter = 2 * time.Second

// Outage says that a call waits for a server.
type Outage struct {
	// URL is the server of the first attempt, without user and password.
	URL string
	// Cause is the failure of the last attempt. It is nil if the first connection is still being made.
	Cause error
	// Left is how long the call goes on. It is negative if the call goes on until its context ends.
	Left time.Duration
}

// outage watches one call. A nil outage does nothing.
type outage struct {
	onOutage func(Outage)
	url      string
	// ends is when the call is given up. The zero time: when its context ends.
	ends  time.Time
	timer *time.Timer

	mu sync.Mutex
	// connected: a server has the request. due: the timer has fired meanwhile.
	connected, due bool
	cause          error
}

// watchOutage returns the watch of a call that begins, or nil without Config.OnOutage.
func (c *Client) watchOutage(made call) *outage {
	if c.onOutage == nil {
		return nil
	}
	first, _ := c.servers.use()
	o := &outage{onOutage: c.onOutage, url: first.printed}
	if !made.endless {
		patience := c.retryFor
		if patience < 0 {
			patience = c.requestTimeout + made.wait // the one attempt
		}
		o.ends = time.Now().Add(patience)
	}
	o.timer = time.AfterFunc(outageAfter, o.fire)
	return o
}

// trace returns a context that reports when an attempt has a connection.
func (o *outage) trace(ctx context.Context) context.Context {
	if o == nil {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.connected = true
	}})
}

// failed says that an attempt failed and that the call goes on.
func (o *outage) failed(cause error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.connected, o.cause = false, cause
	if o.due { // the server had the request until now
		o.due = false
		o.timer.Reset(outageAfter)
	}
}

// fire runs when the time is over. A server that has the request may take its time.
func (o *outage) fire() {
	o.mu.Lock()
	connected, cause := o.connected, o.cause
	o.due = connected
	o.mu.Unlock()
	if connected {
		return
	}
	left := time.Duration(-1)
	if !o.ends.IsZero() {
		left = max(0, time.Until(o.ends))
	}
	o.onOutage(Outage{URL: o.url, Cause: cause, Left: left})
}

// end ends the watch.
func (o *outage) end() {
	if o != nil {
		o.timer.Stop()
	}
}

package client

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// outageAfter is how long a call must be without a connection before Config.OnOutage is called.
const outageAfter = 2 * time.Second

// Outage says that a call waits for a server.
type Outage struct {
	// URL is the server of the first attempt, without user and password.
	URL string
	// Cause is the failure of the last attempt. It is nil if the first attempt has not ended.
	Cause error
	// Left is how long the call will still try. It is negative if the call tries until its context ends.
	Left time.Duration
}

// outage watches one call. A nil outage does nothing.
type outage struct {
	onOutage func(Outage)
	url      string
	// ends is when the call gives up. The zero time means that only the end of the context ends the call.
	ends  time.Time
	timer *time.Timer

	mu sync.Mutex
	// connected: the current attempt has a connection. due: the timer has fired while connected was true.
	connected, due bool
	cause          error
}

// watchOutage starts to watch a new call. It returns nil if Config.OnOutage is nil.
func (c *Client) watchOutage(made call) *outage {
	if c.onOutage == nil {
		return nil
	}
	first, _ := c.servers.Use()
	o := &outage{onOutage: c.onOutage, url: first.Printed}
	if !made.endless {
		patience := c.retryFor
		if patience < 0 {
			patience = c.requestTimeout + made.wait // the duration of a single attempt
		}
		o.ends = time.Now().Add(patience)
	}
	o.timer = time.AfterFunc(outageAfter, o.fire)
	return o
}

// trace returns a context for an attempt. It sets connected when the attempt has a connection.
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

// failed records that an attempt failed and that the call will try again.
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

// fire runs outageAfter after the start of the watch. It calls onOutage unless the attempt has a connection: a connected server
// may need longer to answer.
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

// end stops the watch.
func (o *outage) end() {
	if o != nil {
		o.timer.Stop()
	}
}

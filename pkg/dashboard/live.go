package dashboard

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// beat is how often an idle stream writes a comment, so that proxies keep the connection.
	beat = 20 * time.Second
	// liveWrite bounds a write to a browser that does not read.
	liveWrite = 10 * time.Second
)

// live serves the stream of changes: an event `change` each time figures may have changed, when a page that
// is read again surely has them. The browser then reads its page again. An event `ended` says that the
// session is over. The stream ends when the browser leaves, and at Close.
func (d *Dashboard) live(w http.ResponseWriter, r *http.Request) {
	caller, err := d.caller(r)
	if err != nil {
		http.Error(w, errorText(err), http.StatusUnauthorized)
		return
	}
	control := http.NewResponseController(w)
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(liveWrite)) // only tests have no connection
		_, err := fmt.Fprint(w, text)
		return err == nil && control.Flush() == nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	count := d.deps.Changes.Count()
	if !send("retry: 2000\n\n") {
		return
	}
	var ends <-chan time.Time
	if p := caller.Principal; p != nil && !p.ExpiresAt.IsZero() {
		ends = time.After(time.Until(p.ExpiresAt))
	}
	for {
		select {
		case <-d.deps.Changes.After(count):
			if !d.pause(r, d.client.Stale()) {
				return
			}
			count = d.deps.Changes.Count()
			if _, err := d.caller(r); err != nil { // revoked
				send("event: ended\ndata:\n\n")
				return
			}
			if !send("event: change\ndata:\n\n") {
				return
			}
		case <-time.After(beat):
			if !send(":\n\n") {
				return
			}
		case <-ends:
			send("event: ended\ndata:\n\n")
			return
		case <-r.Context().Done():
			return
		case <-d.closed:
			return
		}
	}
}

// pause blocks for a time. It returns false if the stream ends.
func (d *Dashboard) pause(r *http.Request, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-r.Context().Done():
		return false
	case <-d.closed:
		return false
	}
}

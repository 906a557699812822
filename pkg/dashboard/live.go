package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// beat is how often an idle stream writes a comment, so that proxies keep the connection.
	beat = 20 * time.Second
	// liveWrite bounds a write to a browser that does not read.
	liveWrite = 10 * time.Second
	// watchAgain is the time until a watch that ended is tried again.
	watchAgain = 5 * time.Second
)

// watch runs Deps.Watch while a page is open.
type watch struct {
	mu sync.Mutex
	// open counts the open pages. stop ends the watch; it is set while there are some.
	open int
	stop context.CancelFunc
	work sync.WaitGroup
}

// watching makes sure that events are watched until the caller calls left.
func (d *Dashboard) watching() (left func()) {
	if d.deps.Watch == nil {
		return func() {}
	}
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open++; w.open == 1 && !d.isClosed() {
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		w.work.Go(func() { d.watchEvents(ctx) })
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.open--; w.open == 0 && w.stop != nil {
			w.stop()
		}
	}
}

func (d *Dashboard) isClosed() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

// watchEvents passes events on until ctx ends or the dashboard is closed.
func (d *Dashboard) watchEvents(ctx context.Context) {
	for {
		if err := d.deps.Watch(ctx, d.deps.Changes.Changed); err != nil && ctx.Err() == nil {
			d.deps.Log.Info("the dashboard cannot watch the events; it will be retried", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-d.closed:
			return
		case <-time.After(watchAgain):
		}
	}
}

// live serves the stream of changes: an event `change` each time figures may have changed, when a page that
// is read again surely has them. The browser then reads its page again. An event `ended` says that the
// session is over. The stream ends when the browser leaves, and at Close.
func (d *Dashboard) live(w http.ResponseWriter, r *http.Request) {
	caller, err := d.caller(r)
	if err != nil {
		http.Error(w, errorText(err), http.StatusUnauthorized)
		return
	}
	defer d.watching()()
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

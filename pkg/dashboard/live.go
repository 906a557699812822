package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// gather is how long a change waits for further changes, so that a page is read once for all changes of a request.
	gather = 50 * time.Millisecond
	// beat is how often an idle stream writes a comment, so that proxies do not close the connection.
	beat = 20 * time.Second
	// liveWrite bounds a write to a browser.
	liveWrite = 10 * time.Second
	// watchAgain is the time between the end of Deps.Watch and its next call.
	watchAgain = 5 * time.Second
)

// watch has the goroutines that run while a page is open, and the announced count of changes.
type watch struct {
	mu sync.Mutex
	// open counts the open pages. stop ends the goroutines of work, which run while a page is open.
	open int
	stop context.CancelFunc
	work sync.WaitGroup
	// count is the announced number of changes. A page that includes fewer changes must be read again. next is closed
	// when count rises.
	count uint64
	next  chan struct{}
}

// watching starts the announcement of changes, if necessary. The caller calls left when it needs no more announcements.
func (d *Dashboard) watching() (left func()) {
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open++; w.open == 1 && !d.isClosed() {
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		w.work.Go(func() { d.announceChanges(ctx) })
		if d.deps.Watch != nil {
			w.work.Go(func() { d.watchEvents(ctx) })
		}
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

// watchEvents reports events to Changes until ctx ends or the dashboard is closed.
func (d *Dashboard) watchEvents(ctx context.Context) {
	for {
		if err := d.deps.Watch(ctx, d.deps.Changes.Changed); err != nil && ctx.Err() == nil {
			d.deps.Log.Info("the dashboard cannot watch the events; the server tries again in 5 seconds", zap.Error(err))
		}
		if !d.pause(ctx, watchAgain) {
			return
		}
	}
}

// announceChanges announces changes to the streams of all pages, until ctx ends or the dashboard is closed. Before an
// announcement it waits until the kept answers of source.Client are stale. So the browsers get new answers, and all
// pages share the reads of these answers.
func (d *Dashboard) announceChanges(ctx context.Context) {
	for count := d.announced(0); ; {
		select {
		case <-d.deps.Changes.After(count):
		case <-ctx.Done():
			return
		case <-d.closed:
			return
		}
		if !d.pause(ctx, gather) {
			return
		}
		count = d.deps.Changes.Count()
		if !d.pause(ctx, d.client.Stale()) {
			return
		}
		d.announced(count)
	}
}

// announced raises the announced number of changes to count, if count is greater. It returns the announced number.
func (d *Dashboard) announced(count uint64) uint64 {
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if count > w.count {
		w.count = count
		close(w.next)
		w.next = make(chan struct{})
	}
	return w.count
}

// announcement returns the announced number of changes, and a channel that is closed when it rises.
func (d *Dashboard) announcement() (count uint64, next <-chan struct{}) {
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	return d.watch.count, d.watch.next
}

// pause blocks for the time wait. It returns false if ctx ends or the dashboard is closed before.
func (d *Dashboard) pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	case <-d.closed:
		return false
	}
}

// since returns the id of an event of the stream. The id contains a count of changes of this process.
func (d *Dashboard) since(count uint64) string { return fmt.Sprintf("%s-%d", d.epoch, count) }

// seen returns the count in an id that the function since returned. ok is false if another process made the id.
func (d *Dashboard) seen(since string) (count uint64, ok bool) {
	epoch, text, _ := strings.Cut(since, "-")
	count, err := strconv.ParseUint(text, 10, 64)
	return count, err == nil && epoch == d.epoch
}

// nextRevocation returns a channel that is closed when the process learns of another revoked token. It returns nil if the
// server requires no tokens.
func (d *Dashboard) nextRevocation() <-chan struct{} {
	if d.deps.Auth == nil {
		return nil
	}
	return d.deps.Auth.NextRevocation()
}

// live serves the stream of changes. It sends an event `change` when figures may have changed since the browser read the
// page. The browser then reads the page again. It sends an event `ended` when the session has ended. The stream ends when
// the browser disconnects, and at Close.
//
// The request contains the id of the last change that the page includes: a new stream in its query, a reconnected stream in
// Last-Event-ID. If another process made the id, for example before a restart, the first event is sent at once.
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
	if r.Method == http.MethodHead || !send("retry: 2000\n\n") {
		return
	}
	since := r.Header.Get("Last-Event-ID")
	if since == "" {
		since = r.URL.Query().Get("since")
	}
	count, known := d.seen(since)
	if !known {
		d.announced(d.deps.Changes.Count())
	}
	var ends <-chan time.Time
	if p := caller.Principal; p != nil && !p.EndsAt.IsZero() {
		ends = time.After(time.Until(p.EndsAt))
	}
	for {
		revocation := d.nextRevocation()
		if _, err := d.caller(r); err != nil {
			send("event: ended\ndata:\n\n")
			return
		}
		latest, next := d.announcement()
		if latest > count || !known {
			if count, known = latest, true; !send("event: change\nid: " + d.since(count) + "\ndata:\n\n") {
				return
			}
		}
		select {
		case <-next:
		case <-time.After(beat):
			if !send(":\n\n") {
				return
			}
		case <-revocation:
		case <-ends:
			ends = time.After(time.Second) // the verifier still accepts the token if the clock was set back
		case <-r.Context().Done():
			return
		case <-d.closed:
			return
		}
	}
}

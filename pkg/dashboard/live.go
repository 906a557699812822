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
	// gather is how long a change waits for others, so that a page is read once for all changes of a request.
	gather = 50 * time.Millisecond
	// beat is how often an idle stream writes a comment, so that proxies keep the connection.
	beat = 20 * time.Second
	// liveWrite bounds a write to a browser that does not read.
	liveWrite = 10 * time.Second
	// watchAgain is the time until a watch that ended is tried again.
	watchAgain = 5 * time.Second
)

// watch is what runs while a page is open.
type watch struct {
	mu sync.Mutex
	// open counts the open pages. stop ends the work; it is set while there are some.
	open int
	stop context.CancelFunc
	work sync.WaitGroup
	// count is the number of changes that the open pages must have seen. next is closed when it rises.
	count uint64
	next  chan struct{}
}

// watching makes sure that changes are announced until the caller calls left.
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

// watchEvents passes events on until ctx ends or the dashboard is closed.
func (d *Dashboard) watchEvents(ctx context.Context) {
	for {
		if err := d.deps.Watch(ctx, d.deps.Changes.Changed); err != nil && ctx.Err() == nil {
			d.deps.Log.Info("the dashboard cannot watch the events; it will be retried", zap.Error(err))
		}
		if !d.pause(ctx, watchAgain) {
			return
		}
	}
}

// announceChanges tells the streams of all pages of changes, until ctx ends or the dashboard is closed. It
// waits until a page that is read again makes new reads. So all pages share the reads, and a page that is
// read all the time costs no more than the answers allow; see source.Client.
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

// announced raises the number of changes that the open pages must have seen, and returns it.
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

// announcement returns the number of changes that the open pages must have seen, and a channel that is
// closed when it rises.
func (d *Dashboard) announcement() (count uint64, next <-chan struct{}) {
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	return d.watch.count, d.watch.next
}

// pause blocks for a time. It returns false if ctx ends or the dashboard is closed.
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

// since is the id of an event of the stream: a count of changes of this process.
func (d *Dashboard) since(count uint64) string { return fmt.Sprintf("%s-%d", d.epoch, count) }

// seen returns the count of a text of since. ok is false if it is not a count of this process.
func (d *Dashboard) seen(since string) (count uint64, ok bool) {
	epoch, text, _ := strings.Cut(since, "-")
	count, err := strconv.ParseUint(text, 10, 64)
	return count, err == nil && epoch == d.epoch
}

// nextRevocation returns a channel that is closed when another token is known to be revoked.
func (d *Dashboard) nextRevocation() <-chan struct{} {
	if d.deps.Auth == nil {
		return nil
	}
	return d.deps.Auth.NextRevocation()
}

// live serves the stream of changes: an event `change` each time figures may have changed since the page was
// read, when a page that is read again has them. The browser then reads its page again. An event `ended` says
// that the session is over. The stream ends when the browser leaves, and at Close.
//
// A new stream says in its query up to which change its page has seen, and one that comes back in
// Last-Event-ID. If that is unknown, for example after a restart, the first event comes at once.
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
			ends = time.After(time.Second) // if this clock was set back
		case <-r.Context().Done():
			return
		case <-d.closed:
			return
		}
	}
}

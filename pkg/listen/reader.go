package listen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

var (
	errNoListen = errors.New("LISTEN did not answer in time")
	errSilent   = errors.New("our own canary was not heard in time, so the connection is frozen")
	errDeaf     = errors.New("LISTEN succeeded, but our own canary was not heard")
)

// session is one connection of the listener.
type session struct {
	*line
	guard  *time.Timer // cuts the line unless LISTEN comes into force
	proved atomic.Bool // a canary was heard
}

// reader is the side of the listener that pgxlisten's loop calls. Its fields
// belong to that loop.
type reader struct {
	*Listener
	current *session // nil before the first connection and after a failed one
	failed  int      // connections in a row that failed or were lost before a proof
	deaf    int      // sessions in a row that heard nothing
	quiet   bool     // this outage has been logged
}

// connect waits as long as it should after what came before, and connects.
func (r *reader) connect(ctx context.Context) (*pgx.Conn, error) {
	r.discard(ctx)
	var delay time.Duration
	switch {
	case r.deaf > 0:
		delay = r.deafRetry.Delay(r.deaf, rand.Float64())
	case r.failed > 0:
		delay = r.reconnect.Delay(r.failed, rand.Float64())
	}
	if !pause(ctx, delay) {
		return nil, ctx.Err()
	}
	line, err := openLine(ctx, r.config)
	if err != nil {
		return nil, err
	}
	s := &session{line: line}
	s.guard = time.AfterFunc(r.config.ConnectTimeout, func() { s.cut(errNoListen) })
	r.current = s
	return line.Conn, nil
}

// discard waits until nothing is left of the session before.
func (r *reader) discard(ctx context.Context) {
	if r.current == nil {
		return
	}
	r.current.guard.Stop()
	r.current.drop(ctx)
	r.current = nil
}

// ended is called when connecting failed, or a session ended, with the reason.
func (r *reader) ended(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // we are stopping: that is no outage
	}
	state := StateReconnecting
	s := r.current
	if s != nil && s.over() {
		err = s.cause() // we cut it, which is why reading failed
	}
	switch {
	case errors.Is(err, errDeaf):
		state, r.deaf, r.failed = StateDeaf, r.deaf+1, 0
	case s != nil && s.proved.Load():
		r.deaf, r.failed = 0, 1
	default:
		r.deaf, r.failed = 0, r.failed+1
	}
	if s != nil {
		s.cut(err) // the watch loop sees that it is over
	}
	before, _ := r.State()
	r.report(before, state, err)
	r.change(func(State) State { return state })
}

// report logs once when an outage begins, once when it turns out to be deafness,
// and the rest for those who look closely.
func (r *reader) report(before, state State, err error) {
	switch {
	case state == StateDeaf && before != StateDeaf:
		r.log.Error("notifications are not heard: LISTEN succeeds and nothing arrives, as behind a pooler in transaction mode. "+
			"Set database.listen_url to a URL that leads directly to Postgres. Until then waiting requests poll the database",
			zap.String("host", r.config.Host), zap.Uint16("port", r.config.Port))
	case state != StateDeaf && !r.quiet:
		r.log.Warn("the listener has no connection and reconnects; until then waiting requests poll the database", zap.Error(err))
	default:
		r.log.Debug("the listener still has no proven connection", zap.Error(err))
	}
	r.quiet = true
}

// inForce is called when LISTEN has come into force and before the first
// notification is handled.
func (r *reader) inForce(ctx context.Context) {
	r.current.guard.Stop()
	r.peers.grace(time.Now())
	reason := "the listener connected"
	if r.reconnects.Add(1) > 1 {
		reason = "the listener reconnected"
	}
	r.doubt(reason)
	select {
	case r.listening <- r.current:
	case <-ctx.Done():
	}
}

// handle is called with each notification.
func (r *reader) handle(payload string) {
	m, err := Decode(payload)
	switch {
	case err != nil:
		r.doubt(fmt.Sprintf("a notification was not understood: %v", err))
	case m.Instance != r.sender.instance:
		r.other(m)
	case m.Canary > 0:
		r.own(m.Canary)
	default: // entries of our own have been dealt with in process
	}
}

func (r *reader) other(m Message) {
	if m.Goodbye {
		r.peers.remove(m.Instance)
	} else {
		r.peers.heard(m.Instance, m.Canary > 0, time.Now())
	}
	if len(m.Entries) > 0 {
		r.message(m)
	}
}

// own handles a canary of ours: the proof.
func (r *reader) own(number uint64) {
	if r.current.over() {
		return // too late: it has been cut, and reading from it is about to fail
	}
	r.current.proved.Store(true)
	r.failed, r.deaf, r.quiet = 0, 0, false
	before, gap := r.prove()
	if before != StateProven {
		r.log.Info("the listener is proven", zap.String("was", string(before)), zap.Duration("after", gap.Round(time.Millisecond)))
	}
	select {
	case <-r.heard: // an older one that the watch loop has not taken
	default:
	}
	r.heard <- number // only this loop puts one in, so there is room
}

// handler is the reader as pgxlisten wants it.
type handler struct{ *reader }

// HandleBacklog is called once LISTEN is in force.
func (h handler) HandleBacklog(ctx context.Context, _ string, _ *pgx.Conn) error {
	h.inForce(ctx)
	return nil
}

// HandleNotification is called with each notification.
func (h handler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.handle(n.Payload)
	return nil
}

// inboxHandler hears of rows in belfry.inbox.
type inboxHandler struct{ *Listener }

// HandleBacklog is called once LISTEN is in force on its channel.
func (h inboxHandler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.inbox()
	return nil
}

// HandleNotification is called with each notification.
func (h inboxHandler) HandleNotification(context.Context, *pgconn.Notification, *pgx.Conn) error {
	h.inbox()
	return nil
}

// wishHandler hears what consumers in SQL wait for.
type wishHandler struct{ *Listener }

// HandleBacklog is called once LISTEN is in force on its channel.
func (h wishHandler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.calls.Lock()
	defer h.calls.Unlock()
	h.callbacks.SQLWaiters.AskAgain()
	return nil
}

// HandleNotification is called with each notification.
func (h wishHandler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.wish(n.Payload)
	return nil
}

package listen

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

// watcher watches the listener from outside the read loop, because the read loop cannot
// notice that nothing arrives. Only the watch loop uses its fields.
type watcher struct {
	*Listener
	current     *session // the latest session in which LISTEN took effect; may be cut
	firstCanary uint64   // number of the first canary of the current session
	lastHeard   uint64   // number of the latest canary that was heard
	awaited     uint64   // number of the canary that silenceTimer waits for; 0: none

	silenceTimer *time.Timer // fires when the awaited canary is overdue
	proofTimer   *time.Timer // fires when there was no proof for too long
	peerTimer    *time.Timer // fires when a peer may have been silent for too long
}

// watch runs the watch loop until ctx ends.
func (l *Listener) watch(ctx context.Context) {
	w := &watcher{
		Listener: l, silenceTimer: stoppedTimer(), proofTimer: stoppedTimer(), peerTimer: time.NewTimer(l.cfg.PeerTimeout),
	}
	beat := time.NewTicker(l.cfg.CanaryInterval)
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			w.sendCanary()
		case s := <-l.listening:
			beat.Reset(l.cfg.CanaryInterval)
			w.startSession(s)
		case number := <-l.sender.sentCanaries:
			w.canarySent(number)
		case number := <-l.heard:
			w.canaryHeard(number)
		case reason := <-l.created.asked:
			l.created.schedule(reason)
		case <-l.created.timer.C:
			l.created.due()
		case reason := <-l.look.asked:
			l.look.schedule(reason)
		case <-l.look.timer.C:
			l.look.due()
		case <-w.silenceTimer.C:
			w.onSilence()
		case <-w.proofTimer.C:
			w.onMissingProof()
		case now := <-w.peerTimer.C:
			w.expirePeers(now)
		}
	}
}

// stoppedTimer returns a timer that does not run.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// sendCanary sends a canary, even while no connection can hear it, because the canary is also the heartbeat for the other
// instances.
func (w *watcher) sendCanary() {
	w.sender.sendCanary(w.lastCanary.Add(1))
}

// startSession sends the first canary of a new session.
func (w *watcher) startSession(s *session) {
	w.current, w.awaited = s, 0
	w.silenceTimer.Stop()
	w.proofTimer.Reset(w.cfg.CanaryInterval + w.cfg.CanaryTimeout)
	w.sendCanary()
	w.firstCanary = w.lastCanary.Load()
}

// canarySent is called after the commit of a canary. The canary must then be heard within CanaryTimeout. A canary that may have
// been committed before LISTEN took effect does not count.
func (w *watcher) canarySent(number uint64) {
	if w.current == nil || w.awaited != 0 || number < w.firstCanary || number <= w.lastHeard {
		return
	}
	w.awaited = number
	w.silenceTimer.Reset(w.cfg.CanaryTimeout)
}

func (w *watcher) canaryHeard(number uint64) {
	w.lastHeard = max(w.lastHeard, number)
	if w.lastHeard >= w.awaited {
		w.awaited = 0
		w.silenceTimer.Stop()
	}
	w.proofTimer.Reset(w.cfg.CanaryInterval + w.cfg.CanaryTimeout)
}

// onSilence cuts the session, because its canary was sent and not heard.
func (w *watcher) onSilence() {
	w.awaited = 0
	cause := errSilent
	if !w.current.proven.Load() {
		cause = errUnheard
	}
	w.current.cut(cause) // does nothing if the session was cut before
}

// onMissingProof is called when there was no proof for too long. If a canary is awaited, onSilence decides about the session.
// Otherwise no canary could be sent, so the session may work but is not proven.
func (w *watcher) onMissingProof() {
	if w.awaited != 0 || w.current.isCut() {
		return
	}
	var was State
	w.change(func(now State) State {
		fresh := time.Since(w.lastProof) < w.cfg.CanaryInterval // a proof has just arrived
		if now == StateStarting || now == StateProven && !fresh {
			was = now
			return StateReconnecting
		}
		return now
	})
	if was == "" {
		return
	}
	w.log.Warn("the listener has no proof, because no canary could be sent for too long; until then waiting requests poll the database")
	if was == StateProven {
		w.callbacks.OnResync("the listener lost its proof")
	}
}

// expirePeers calls OnResync once for all peers that fell silent, and at most once in lookInterval. Without a working session it
// does nothing, because the listener cannot hear the peers then.
func (w *watcher) expirePeers(now time.Time) {
	next := now.Add(w.cfg.PeerTimeout)
	if w.current != nil && !w.current.isCut() {
		silent, earliest := w.peers.expire(now)
		if !earliest.IsZero() {
			next = earliest
		}
		if len(silent) > 0 {
			w.log.Warn("other instances fell silent without a goodbye", zap.Int("instances", len(silent)), zap.Stringer("one", silent[0]))
			for _, id := range silent {
				w.callbacks.OnPeerLeft(id)
			}
			w.callbacks.OnResync(fmt.Sprintf("silent peers: %d, such as %s", len(silent), silent[0]))
			if soonest := now.Add(lookInterval); next.Before(soonest) {
				next = soonest
			}
		}
	}
	w.peerTimer.Reset(next.Sub(now))
}

const (
	// createdInterval and createdBurst limit the rate of OnCreated. lookInterval and lookBurst limit the rate of OnLook. A healthy
	// instance seldom exceeds these rates.
	createdInterval, createdBurst = 100 * time.Millisecond, 10
	lookInterval, lookBurst       = time.Second, 5
	// unreadableLogInterval is the shortest time between two log lines about unreadable notifications.
	unreadableLogInterval = time.Minute
)

// pacedCall is a callback for notifications of other processes, with a limited rate. One call covers all notifications that were
// heard before it.
type pacedCall struct {
	call func(reason string)
	// asked passes reasons from the read loop to the watch loop. Only the watch loop uses the other fields.
	asked chan string
	pace  backoff.Pace
	// timer fires when the call is due. The timer runs while reason is not empty.
	timer  *time.Timer
	reason string
}

func newPacedCall(interval time.Duration, burst int, call func(reason string)) *pacedCall {
	return &pacedCall{
		call: call, asked: make(chan string, 1), pace: backoff.Pace{Interval: interval, Burst: burst}, timer: stoppedTimer(),
	}
}

// ask asks the watch loop for the call. It does not block.
func (c *pacedCall) ask(reason string) {
	select {
	case c.asked <- reason:
	default: // a call is pending, which will also cover this request
	}
}

// schedule makes the call due as soon as the pace allows.
func (c *pacedCall) schedule(reason string) {
	if c.reason == "" {
		now := time.Now()
		c.timer.Reset(c.pace.Next(now).Sub(now))
	}
	c.reason = reason
}

// due makes the call after the timer has fired.
func (c *pacedCall) due() {
	reason := c.reason
	c.reason = ""
	c.call(reason)
}

// handleUnreadable counts a notification that could not be read, logs it at most once a minute, and asks for OnLook.
func (r *reader) handleUnreadable(err error) {
	r.unreadable.Add(1)
	if now := time.Now(); now.Sub(r.unreadableLogged) >= unreadableLogInterval {
		r.unreadableLogged = now
		r.log.Warn("a notification could not be read; every role of the database can send one",
			zap.Int64("unreadable_so_far", r.Unreadable()), zap.Error(err))
	}
	r.look.ask(fmt.Sprintf("a notification was not understood: %v", err))
}
